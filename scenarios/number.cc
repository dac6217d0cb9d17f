#include "scenarios/number.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"

namespace plumbline {
namespace {

// Calls `f.operator()<T>()` with the field of an exact dtype.
template <class F>
decltype(auto) DispatchField(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kM61:
      return f.template operator()<field_internal::M61Rules>();
    case DType::kP50:
      return f.template operator()<field_internal::P50Rules>();
    default:
      break;
  }
  PL_CHECK(dtype == DType::kP31);
  return f.template operator()<field_internal::P31Rules>();
}

DType CommonDType(const Number& a, const Number& b) {
  PL_CHECK((!a.exact() || !b.exact() || a.dtype() == b.dtype()));
  return a.exact() ? a.dtype() : b.dtype();
}

// One operation over doubles, or over the field of either operand.
template <class F>
Number Apply(const Number& a, const Number& b, F&& f) {
  const DType dtype = CommonDType(a, b);
  if (dtype == DType::kF64) return Number(f(a.real(), b.real()));
  return DispatchField(dtype,
                       [&]<class Rules>() { return Number(f(a.As<Rules>(), b.As<Rules>())); });
}

uint64_t PrimeOf(DType dtype) {
  return DispatchField(dtype, []<class Rules>() { return Rules::Prime(); });
}

// Parts of a fraction so small that of all residues less than one in 2000 is one.
int64_t LargestPart(uint64_t prime) {
  const auto part = static_cast<int64_t>(std::sqrt(static_cast<double>(prime) / 4000));
  return std::min<int64_t>(part, 4096);
}

}  // namespace

Number operator+(const Number& a, const Number& b) {
  return Apply(a, b, [](auto x, auto y) { return x + y; });
}
Number operator-(const Number& a, const Number& b) {
  return Apply(a, b, [](auto x, auto y) { return x - y; });
}
Number operator*(const Number& a, const Number& b) {
  return Apply(a, b, [](auto x, auto y) { return x * y; });
}
Number operator/(const Number& a, const Number& b) {
  const int64_t counted = CurrentFieldRun().divisions_by_zero;
  const Number quotient = Apply(a, b, [](auto x, auto y) { return x / y; });
  CurrentFieldRun().divisions_by_zero = counted;
  return quotient;
}
bool operator==(const Number& a, const Number& b) {
  if (!a.exact() && !b.exact()) return a.real() == b.real();
  return Distance(a, b) == 0;
}
bool operator<(const Number& a, const Number& b) {
  if (!a.exact() && !b.exact()) return a.real() < b.real();
  return (a + Number(0.0) * b).residue() < (b + Number(0.0) * a).residue();
}

DType DTypeOf(const Values& values) {
  return values.empty() ? DType::kF64 : values.front().dtype();
}

Number Fraction(DType dtype, int64_t n, int64_t d) {
  if (!IsExact(dtype)) return static_cast<double>(n) / static_cast<double>(d);
  return DispatchField(dtype, [&]<class Rules>() {
    using T = ScalarTraits<Field<Rules>>;
    return Number(T::FromInt(n)) / Number(T::FromInt(d));
  });
}

Number Literal(DType dtype, double value) {
  if (!IsExact(dtype)) return value;
  return DispatchField(
      dtype, [&]<class Rules>() { return Number(ScalarTraits<Field<Rules>>::FromDouble(value)); });
}

Number SquareRoot(const Number& x) {
  if (!x.exact()) return std::sqrt(x.real());
  return DispatchField(x.dtype(), [&]<class Rules>() {
    return Number(ScalarTraits<Field<Rules>>::Sqrt(x.As<Rules>()));
  });
}

double Distance(const Number& a, const Number& b) {
  if (!a.exact() && !b.exact()) return std::abs(a.real() - b.real());
  return (a - b).residue() == 0 ? 0 : 1;
}

// Euclid's algorithm on (p, x), stopped half-way: the remainder is n, the cofactor d.
std::optional<SmallFraction> AsSmallFraction(const Number& x) {
  if (!x.exact()) return std::nullopt;
  const uint64_t prime = PrimeOf(x.dtype());
  const int64_t largest = LargestPart(prime);
  auto old_rest = static_cast<int64_t>(prime);
  auto rest = static_cast<int64_t>(x.residue());
  int64_t old_factor = 0;
  int64_t factor = 1;
  while (rest > largest) {
    const int64_t quotient = old_rest / rest;
    old_rest = std::exchange(rest, old_rest - quotient * rest);
    old_factor = std::exchange(factor, old_factor - quotient * factor);
  }
  if (factor == 0 || std::abs(factor) > largest) return std::nullopt;
  return factor < 0 ? SmallFraction{-rest, -factor} : SmallFraction{rest, factor};
}

double Size(const Number& x) {
  if (!x.exact()) return x.real();
  const std::optional<SmallFraction> fraction = AsSmallFraction(x);
  if (!fraction) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(fraction->n) / static_cast<double>(fraction->d);
}

std::string ToString(const Number& x) {
  // The sign of a NaN says nothing.
  if (!x.exact()) return std::isnan(x.real()) ? "nan" : fmt::format("{}", x.real());
  const std::optional<SmallFraction> fraction = AsSmallFraction(x);
  if (!fraction) return fmt::format("{}", x.residue());
  if (fraction->d == 1) return fmt::format("{}", fraction->n);
  return fmt::format("{}/{}", fraction->n, fraction->d);
}

std::ostream& operator<<(std::ostream& out, const Number& x) { return out << ToString(x); }

Values ToValues(const Tensor& tensor, const Number& factor) {
  const auto read = [&]<class T>() {
    Values values;
    values.reserve(static_cast<size_t>(tensor.elements()));
    for (const T value : tensor.ToVector<T>()) {
      if constexpr (kIsField<T>) {
        values.push_back(Number(value) * factor);
      } else {
        values.push_back(static_cast<double>(value) * factor.real());
      }
    }
    return values;
  };
  return IsExact(tensor.dtype()) ? DispatchScalar(tensor.dtype(), read)
                                 : DispatchReal(tensor.dtype(), read);
}

}  // namespace plumbline
