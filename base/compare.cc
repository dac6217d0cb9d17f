#include "base/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>

#include "base/error.h"

namespace plumbline {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Elements that are looked at together: the buffers stay in the first-level cache.
constexpr int64_t kBlock = 1024;
constexpr int64_t kMagnitude = std::numeric_limits<int64_t>::max();  // all bits but the sign

int64_t BitsOf(double x) { return std::bit_cast<int64_t>(x); }

// |a - r| with this file's rules for NaN and infinity.
double AbsDiff(double a, double r) {
  if (std::isfinite(a) && std::isfinite(r)) return std::abs(a - r);
  const bool match = a == r || (std::isnan(a) && std::isnan(r));
  return match ? 0 : kInfinity;
}

struct BlockMaxima {
  double diff;       // infinite or NaN when the block must be looked at element by element
  double reference;  // likewise
};

// The magnitudes' bits are ordered as the magnitudes, with infinity and then NaN above the numbers;
// integer maxima vectorise, and lose no NaN.
BlockMaxima MaximaOf(const double* actual, const double* reference, int64_t n) {
  int64_t diff = 0;
  int64_t magnitude = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t d = BitsOf(actual[i] - reference[i]) & kMagnitude;
    const int64_t m = BitsOf(reference[i]) & kMagnitude;
    diff = d > diff ? d : diff;
    magnitude = m > magnitude ? m : magnitude;
  }
  return {std::bit_cast<double>(diff), std::bit_cast<double>(magnitude)};
}

// Adds one block to `total`; `index_of(i)` is the global index of its element i.
template <class F>
void AddBlock(const double* actual, const double* reference, int64_t n, F&& index_of,
              Difference& total) {
  total.count += n;
  const BlockMaxima maxima = MaximaOf(actual, reference, n);
  const bool finite = std::isfinite(maxima.diff) && std::isfinite(maxima.reference);
  if (finite) {
    total.max_abs_reference = std::max(total.max_abs_reference, maxima.reference);
    if (maxima.diff <= total.max_abs_diff) return;
  }
  for (int64_t i = 0; i < n; ++i) {
    const double diff = AbsDiff(actual[i], reference[i]);
    if (!finite) {
      // Two finite values whose difference overflows are infinitely far apart, but not nonfinite.
      if (diff == kInfinity && !(std::isfinite(actual[i]) && std::isfinite(reference[i]))) {
        ++total.nonfinite;
      }
      if (std::isfinite(reference[i])) {
        total.max_abs_reference = std::max(total.max_abs_reference, std::abs(reference[i]));
      }
    }
    if (diff > total.max_abs_diff) {
      total.max_abs_diff = diff;
      total.index = index_of(i);
      total.actual = actual[i];
      total.reference = reference[i];
    }
  }
}

// A contiguous tensor as doubles, block by block.
class DoubleReader {
 public:
  explicit DoubleReader(const Tensor& tensor)
      : tensor_(tensor.Contiguous(Context{})), dtype_(tensor.dtype()), raw_(tensor_.raw()) {
    if (IsExact(dtype_)) {
      throw InvalidArgument("comparison of {}; expected f64, f32, bf16, f16 or i64", Name(dtype_));
    }
  }

  double At(int64_t i) const {
    double value;
    Gather(&i, 1, &value);
    return value;
  }

  // Elements [begin, begin + n), converted into `buffer` when they are no doubles.
  const double* Block(int64_t begin, int64_t n, double* buffer) const {
    if (dtype_ == DType::kF64) return reinterpret_cast<const double*>(raw_) + begin;
    Elements([&](const auto* from) {
      for (int64_t i = 0; i < n; ++i) buffer[i] = static_cast<double>(from[begin + i]);
    });
    return buffer;
  }

  // buffer[i] = element index[i].
  void Gather(const int64_t* index, int64_t n, double* buffer) const {
    Elements([&](const auto* from) {
      for (int64_t i = 0; i < n; ++i) buffer[i] = static_cast<double>(from[index[i]]);
    });
  }

 private:
  // Calls f(pointer to the first element).
  template <class F>
  void Elements(F&& f) const {
    if (dtype_ == DType::kI64) return f(reinterpret_cast<const int64_t*>(raw_));
    DispatchReal(dtype_, [&]<class T>() { f(reinterpret_cast<const T*>(raw_)); });
  }

  Tensor tensor_;
  DType dtype_;
  const std::byte* raw_;
};

Difference CompareAll(const DoubleReader& actual, const DoubleReader& reference, int64_t elements) {
  Difference total;
  std::array<double, kBlock> actual_buffer;
  std::array<double, kBlock> reference_buffer;
  for (int64_t begin = 0; begin < elements; begin += kBlock) {
    const int64_t n = std::min(kBlock, elements - begin);
    AddBlock(
        actual.Block(begin, n, actual_buffer.data()),
        reference.Block(begin, n, reference_buffer.data()), n, [&](int64_t i) { return begin + i; },
        total);
  }
  return total;
}

// Whether the n indices are first, first + 1, ...
bool Adjacent(const int64_t* index, int64_t n) {
  int64_t wrong = index[0] < 0 ? 1 : 0;
  for (int64_t i = 0; i < n; ++i) wrong |= index[i] ^ (index[0] + i);
  return wrong == 0;
}

// Copies the indices that are no padding, and their values; returns how many. `values` and
// `kept_values` may be the same.
int64_t DropPadding(const int64_t* index, const double* values, int64_t n, int64_t* kept_index,
                    double* kept_values) {
  int64_t kept = 0;
  for (int64_t i = 0; i < n; ++i) {
    kept_index[kept] = index[i];
    kept_values[kept] = values[i];
    kept += index[i] >= 0 ? 1 : 0;
  }
  return kept;
}

void CheckSameShape(const Tensor& actual, const Tensor& reference) {
  if (actual.shape() == reference.shape()) return;
  throw InvalidArgument("comparison of {} with {}", ToString(actual.shape()),
                        ToString(reference.shape()));
}

std::string IndexInShape(int64_t index, const Shape& shape) {
  Shape position(shape.size(), 0);
  for (size_t axis = shape.size(); axis-- > 0;) {
    position[axis] = index % shape[axis];
    index /= shape[axis];
  }
  return ToString(position);
}

std::string Mismatch(const Tensor& actual, const Strength& strength, int64_t index,
                     const std::string& values) {
  return fmt::format("not {}: {}{} at {}: {}", strength.ToString(), Name(actual.dtype()),
                     ToString(actual.shape()), IndexInShape(index, actual.shape()), values);
}

Match MatchBits(const Tensor& actual, const Tensor& reference, const Strength& strength) {
  if (BitEqual(actual, reference)) return {true, ""};
  const Tensor a = actual.Contiguous(Context{});
  const Tensor r = reference.Contiguous(Context{});
  const size_t size = SizeOf(a.dtype());
  int64_t index = 0;
  while (std::memcmp(a.raw() + index * size, r.raw() + index * size, size) == 0) ++index;
  if (a.dtype() == DType::kBF16 || a.dtype() == DType::kF16) {
    uint16_t bits[2];
    std::memcpy(&bits[0], a.raw() + index * size, size);
    std::memcpy(&bits[1], r.raw() + index * size, size);
    return {false, Mismatch(a, strength, index,
                            fmt::format("bits {:#06x}, reference {:#06x}", bits[0], bits[1]))};
  }
  return {false, Mismatch(a, strength, index,
                          fmt::format("{}, reference {}", DoubleReader(a).At(index),
                                      DoubleReader(r).At(index)))};
}

Match MatchUlps(const Tensor& actual, const Tensor& reference, const Strength& strength) {
  const Tensor a = actual.Contiguous(Context{});
  const Tensor r = reference.Contiguous(Context{});
  int64_t worst = 0;
  int64_t index = 0;
  if (a.dtype() == DType::kI64 || IsExact(a.dtype())) {
    throw InvalidArgument("{} has no units in the last place; compare it bitwise", Name(a.dtype()));
  }
  DispatchReal(a.dtype(), [&]<class T>() {
    const T* left = a.data<T>();
    const T* right = r.data<T>();
    for (int64_t i = 0; i < a.elements(); ++i) {
      const int64_t apart = UlpsApart(left[i], right[i]);
      if (apart > worst) {
        worst = apart;
        index = i;
      }
    }
  });
  if (worst <= strength.ulps()) return {true, ""};
  const DoubleReader left(a);
  const DoubleReader right(r);
  return {false, Mismatch(a, strength, index,
                          fmt::format("{}, reference {}, {} ulps", left.At(index), right.At(index),
                                      worst))};
}

Match MatchBound(const Tensor& actual, const Tensor& reference, const Strength& strength) {
  const Difference difference = Compare(actual, reference);
  if (difference.Within(strength.bound())) return {true, ""};
  return {false, Mismatch(actual, strength, difference.index,
                          fmt::format("{}, reference {}, deviation {:.3g}", difference.actual,
                                      difference.reference, difference.Deviation()))};
}

// Numbers in order, 0 and -0 the same; neighbours differ by 1.
template <class Bits, class T>
int64_t Rank(T x) {
  const Bits bits = std::bit_cast<Bits>(x);
  return bits >= 0 ? bits : std::numeric_limits<Bits>::min() - bits;
}

template <class Bits, class T>
int64_t UlpsApartOf(T a, T b) {
  constexpr int64_t kFar = std::numeric_limits<int64_t>::max();
  const double x = static_cast<double>(a);
  const double y = static_cast<double>(b);
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y) ? 0 : kFar;
  if (x == y) return 0;
  if (std::isinf(x) || std::isinf(y)) return kFar;
  // Opposite signs of large magnitude are more than 2^63 apart.
  const __int128 apart = static_cast<__int128>(Rank<Bits>(a)) - Rank<Bits>(b);
  const __int128 distance = apart < 0 ? -apart : apart;
  return distance > kFar ? kFar : static_cast<int64_t>(distance);
}

}  // namespace

double Difference::Deviation() const {
  if (max_abs_diff == 0) return 0;
  return max_abs_diff / max_abs_reference;
}

void Difference::Merge(const Difference& other) {
  // The lower index wins a tie, so that the order of merging does not show.
  const bool worse =
      other.max_abs_diff > max_abs_diff || (other.max_abs_diff == max_abs_diff &&
                                            other.index >= 0 && (index < 0 || other.index < index));
  if (worse) {
    max_abs_diff = other.max_abs_diff;
    index = other.index;
    actual = other.actual;
    reference = other.reference;
  }
  max_abs_reference = std::max(max_abs_reference, other.max_abs_reference);
  count += other.count;
  nonfinite += other.nonfinite;
}

Difference Compare(const Tensor& actual, const Tensor& reference) {
  CheckSameShape(actual, reference);
  return CompareAll(DoubleReader(actual), DoubleReader(reference), actual.elements());
}

Difference ComparePiece(const Tensor& local, const LocalPiece& piece, const Tensor& global) {
  const int64_t elements = static_cast<int64_t>(piece.global_index.size());
  if (local.elements() != elements) {
    throw InvalidArgument("a piece of {} elements compared as {}", elements,
                          ToString(local.shape()));
  }
  const DoubleReader actual(local);
  const DoubleReader reference(global);
  if (piece.whole) {
    PL_CHECK(global.elements() == elements);
    return CompareAll(actual, reference, elements);
  }
  Difference total;
  std::array<double, kBlock> actual_buffer;
  std::array<double, kBlock> reference_buffer;
  std::array<int64_t, kBlock> indices;
  for (int64_t begin = 0; begin < elements; begin += kBlock) {
    const int64_t n = std::min(kBlock, elements - begin);
    const int64_t* index = piece.global_index.data() + begin;
    const double* block = actual.Block(begin, n, actual_buffer.data());
    int64_t largest = -1;
    for (int64_t i = 0; i < n; ++i) largest = index[i] > largest ? index[i] : largest;
    if (largest >= global.elements()) {
      throw Internal("global index {} of {} elements", largest, global.elements());
    }
    if (Adjacent(index, n)) {
      AddBlock(
          block, reference.Block(index[0], n, reference_buffer.data()), n,
          [&](int64_t i) { return index[i]; }, total);
      continue;
    }
    const int64_t kept = DropPadding(index, block, n, indices.data(), actual_buffer.data());
    reference.Gather(indices.data(), kept, reference_buffer.data());
    AddBlock(
        actual_buffer.data(), reference_buffer.data(), kept, [&](int64_t i) { return indices[i]; },
        total);
  }
  return total;
}

double MaxAbs(const Tensor& tensor) {
  const DoubleReader reader(tensor);
  return CompareAll(reader, reader, tensor.elements()).max_abs_reference;
}

Strength Strength::Bitwise() { return Strength(); }

Strength Strength::WithinUlps(int64_t n) {
  Strength result;
  result.kind_ = Kind::kUlps;
  result.ulps_ = n;
  return result;
}

Strength Strength::Within(double bound, std::string formula) {
  Strength result;
  result.kind_ = Kind::kBound;
  result.bound_ = bound;
  result.formula_ = std::move(formula);
  return result;
}

std::string Strength::ToString() const {
  switch (kind_) {
    case Kind::kBitwise:
      return "bitwise equal";
    case Kind::kUlps:
      return fmt::format("within {} ulps", ulps_);
    case Kind::kBound:
      return fmt::format("within {:.3g} ({})", bound_, formula_);
  }
  throw Internal("strength {} has no name", static_cast<int>(kind_));
}

Match Matches(const Tensor& actual, const Tensor& reference, const Strength& strength) {
  CheckSameShape(actual, reference);
  if (strength.kind() == Strength::Kind::kBound) return MatchBound(actual, reference, strength);
  if (actual.dtype() != reference.dtype()) {
    throw InvalidArgument("{} asked of {} and {}", strength.ToString(), Name(actual.dtype()),
                          Name(reference.dtype()));
  }
  return strength.kind() == Strength::Kind::kUlps ? MatchUlps(actual, reference, strength)
                                                  : MatchBits(actual, reference, strength);
}

bool BitEqual(const Tensor& a, const Tensor& b) {
  CheckSameShape(a, b);
  if (a.dtype() != b.dtype()) {
    throw InvalidArgument("bits of {} compared with {}", Name(a.dtype()), Name(b.dtype()));
  }
  const int64_t size = static_cast<int64_t>(SizeOf(a.dtype()));
  bool equal = true;
  ForEachRun(a, b, [&](int64_t a_offset, int64_t b_offset, int64_t n) {
    equal = equal && std::memcmp(a.raw() + a_offset * size, b.raw() + b_offset * size,
                                 static_cast<size_t>(n * size)) == 0;
  });
  return equal;
}

int64_t UlpsApart(double a, double b) { return UlpsApartOf<int64_t>(a, b); }
int64_t UlpsApart(float a, float b) { return UlpsApartOf<int32_t>(a, b); }
int64_t UlpsApart(BF16 a, BF16 b) { return UlpsApartOf<int16_t>(a, b); }
int64_t UlpsApart(F16 a, F16 b) { return UlpsApartOf<int16_t>(a, b); }

}  // namespace plumbline
