#include "kernels/reduce.h"

#include <algorithm>
#include <concepts>
#include <type_traits>

#include "base/dtype.h"
#include "base/error.h"
#include "base/scalar.h"
#include "kernels/host/common.h"

namespace plumbline {
namespace {

// What two elements are combined in: f32 for bf16 and f16, whose every sum is then rounded.
template <class T>
using Computed = std::conditional_t<std::same_as<T, BF16> || std::same_as<T, F16>, float, T>;

// A block of partial results stays in the first-level cache while each source passes once, and a
// result that is also a source is written only after the block was read from all of them.
constexpr int64_t kBlockBytes = 4096;

template <class T>
struct Maximum {
  T operator()(T a, T b) const {
    if constexpr (std::integral<T>) {
      return a > b ? a : b;
    } else {
      // The maximum belongs to scores, which have the total order.
      using Traits = ScalarTraits<T>;
      return Traits::StoreScore(Traits::Max(Traits::LoadScore(a), Traits::LoadScore(b)));
    }
  }
};

// NaN wins, as in a maximum.
template <class T>
struct Minimum {
  T operator()(T a, T b) const { return (a < b || a != a) ? a : b; }
};

template <class T>
struct Sum {
  T operator()(T a, T b) const { return a + b; }
};

template <class T>
struct Identity {
  T operator()(T x) const { return x; }
};

template <class T, class Combine, class Finish>
void ReduceBlocks(std::span<const Tensor* const> sources, Tensor& result, Combine combine,
                  Finish finish) {
  using C = Computed<T>;
  constexpr int64_t kBlock = kBlockBytes / static_cast<int64_t>(sizeof(T));
  alignas(64) T partial[kBlock];
  T* out = result.data<T>();
  const int64_t elements = result.elements();
  for (int64_t begin = 0; begin < elements; begin += kBlock) {
    const int64_t n = std::min(kBlock, elements - begin);
    const T* first = sources[0]->data<T>() + begin;
    std::copy(first, first + n, partial);
    for (size_t s = 1; s < sources.size(); ++s) {
      const T* source = sources[s]->data<T>() + begin;
      for (int64_t i = 0; i < n; ++i) {
        partial[i] = static_cast<T>(combine(static_cast<C>(partial[i]), static_cast<C>(source[i])));
      }
    }
    for (int64_t i = 0; i < n; ++i) {
      out[begin + i] = static_cast<T>(finish(static_cast<C>(partial[i])));
    }
  }
}

template <class T>
void ReduceScalar(ReduceOp op, std::span<const Tensor* const> sources, Tensor& result) {
  using C = Computed<T>;
  switch (op) {
    case ReduceOp::kSum:
      return ReduceBlocks<T>(sources, result, Sum<C>(), Identity<C>());
    case ReduceOp::kAvg: {
      if constexpr (std::integral<T>) {
        throw InvalidArgument("reduce avg of {}: an average of integers is not defined",
                              Name(result.dtype()));
      } else {
        const host::DivideBy<C> average(
            ScalarTraits<C>::FromInt(static_cast<int64_t>(sources.size())));
        return ReduceBlocks<T>(sources, result, Sum<C>(), average);
      }
    }
    case ReduceOp::kMax:
      return ReduceBlocks<T>(sources, result, Maximum<C>(), Identity<C>());
    case ReduceOp::kMin:
      if constexpr (std::totally_ordered<C>) {
        return ReduceBlocks<T>(sources, result, Minimum<C>(), Identity<C>());
      } else {
        throw InvalidArgument("reduce min of {}: the dtype has no order", Name(result.dtype()));
      }
  }
  throw Internal("reduce op {} is not in the table", static_cast<int>(op));
}

void CheckSources(ReduceOp op, std::span<const Tensor* const> sources, const Tensor& result) {
  if (sources.empty()) throw InvalidArgument("reduce {} of no tensors", Name(op));
  PL_CHECK(result.contiguous());
  for (size_t s = 0; s < sources.size(); ++s) {
    const Tensor& source = *sources[s];
    PL_CHECK(source.contiguous());
    if (source.dtype() != result.dtype() || source.elements() != result.elements()) {
      throw InvalidArgument("reduce {}: source {} is {}{}, the result {}{}", Name(op), s,
                            Name(source.dtype()), ToString(source.shape()), Name(result.dtype()),
                            ToString(result.shape()));
    }
  }
}

}  // namespace

std::string_view Name(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kAvg:
      return "avg";
    case ReduceOp::kMax:
      return "max";
    case ReduceOp::kMin:
      return "min";
  }
  throw Internal("reduce op {} is not in the table", static_cast<int>(op));
}

void Reduce(ReduceOp op, std::span<const Tensor* const> sources, Tensor& result) {
  CheckSources(op, sources, result);
  if (result.dtype() == DType::kI64) return ReduceScalar<int64_t>(op, sources, result);
  if (IsHalf(result.dtype())) {
    return DispatchReal(result.dtype(), [&]<class T>() { ReduceScalar<T>(op, sources, result); });
  }
  DispatchScalar(result.dtype(), [&]<class T>() { ReduceScalar<T>(op, sources, result); });
}

}  // namespace plumbline
