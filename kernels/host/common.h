// What the host operators share: shape checks, multiply-add, rows of a tensor.
#ifndef PLUMBLINE_KERNELS_HOST_COMMON_H_
#define PLUMBLINE_KERNELS_HOST_COMMON_H_

#include <cmath>
#include <concepts>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/context.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/scalar.h"
#include "base/tensor.h"

namespace plumbline::host {

// a * b + c: rounded once for floats, plain arithmetic for other scalars.
template <class T>
inline T MultiplyAdd(T a, T b, T c) {
  if constexpr (std::floating_point<T>) {
    return std::fma(a, b, c);
  } else {
    return a * b + c;
  }
}

// A score is stored in a tensor of the scalar's dtype.
template <class T>
using ScoreOf = typename ScalarTraits<T>::Score;
template <class T>
using LogSumOf = typename ScalarTraits<T>::LogSum;

template <class T>
inline T Zero() {
  return ScalarTraits<T>::FromInt(0);
}
template <class T>
inline T One() {
  return ScalarTraits<T>::FromInt(1);
}

// x / n for many x. Over a field the inverse is computed once; a float divides each time, so that
// the quotient is rounded once.
template <class T>
class DivideBy {
 public:
  explicit DivideBy(T n) : factor_(std::floating_point<T> ? n : One<T>() / n) {}
  T operator()(T x) const {
    if constexpr (std::floating_point<T>) {
      return x / factor_;
    } else {
      return x * factor_;
    }
  }

 private:
  T factor_;
};

// numerators[i] /= denominators[i]; the denominators are used up.
template <class T>
inline void DivideAll(std::span<T> numerators, std::span<T> denominators) {
  if constexpr (std::floating_point<T>) {
    for (size_t i = 0; i < numerators.size(); ++i) numerators[i] = numerators[i] / denominators[i];
  } else {
    plumbline::DivideAll(numerators, denominators);
  }
}

// sums[row] = step(row, i, ... step(row, 1, step(row, 0, sums[row]))): one chain per row over
// ascending i. Several rows advance together, which hides the latency of the additions and changes
// no bit.
template <class T, class Step>
inline void RowChains(int64_t rows, int64_t columns, Step step, T* sums) {
  constexpr int kTogether = 8;
  int64_t row = 0;
  for (; row + kTogether <= rows; row += kTogether) {
    T chain[kTogether];
    for (int r = 0; r < kTogether; ++r) chain[r] = sums[row + r];
    for (int64_t i = 0; i < columns; ++i) {
#pragma GCC unroll 8
      for (int r = 0; r < kTogether; ++r) chain[r] = step(row + r, i, chain[r]);
    }
    for (int r = 0; r < kTogether; ++r) sums[row + r] = chain[r];
  }
  for (; row < rows; ++row) {
    T chain = sums[row];
    for (int64_t i = 0; i < columns; ++i) chain = step(row, i, chain);
    sums[row] = chain;
  }
}

// An operand with adjacent elements in row-major order: itself where it has them, else a copy.
// Refers to its argument.
class Packed {
 public:
  Packed(const Context& context, const Tensor& x)
      : copy_(x.contiguous() ? Tensor() : x.Contiguous(context)),
        tensor_(copy_.defined() ? copy_ : x) {}
  Packed(const Packed&) = delete;
  Packed& operator=(const Packed&) = delete;

  template <class T>
  const T* data() const {
    return tensor_.data<T>();
  }

 private:
  const Tensor copy_;
  const Tensor& tensor_;
};

// The number of rows when all dimensions but the last are flattened. A tensor of no dimensions has
// none to flatten.
inline int64_t RowsOf(std::string_view op, const Tensor& x) {
  if (x.dims() < 1) throw InvalidArgument("{}: a 0-d tensor has no rows", op);
  int64_t rows = 1;
  for (int64_t axis = 0; axis + 1 < x.dims(); ++axis) rows *= x.shape()[axis];
  return rows;
}

inline void CheckDims(std::string_view op, std::string_view name, const Tensor& x, int64_t dims) {
  if (!x.defined() || x.dims() != dims) {
    throw InvalidArgument("{}: {} is {}; expected {} dimensions", op, name,
                          x.defined() ? ToString(x.shape()) : "undefined", dims);
  }
}

inline void CheckShape(std::string_view op, std::string_view name, const Tensor& x,
                       const Shape& shape) {
  if (!x.defined() || x.shape() != shape) {
    throw InvalidArgument("{}: {} is {}; expected {}", op, name,
                          x.defined() ? ToString(x.shape()) : "undefined", ToString(shape));
  }
}

inline void CheckDTypes(std::string_view op, const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype()) {
    throw InvalidArgument("{}: operands are {}{} and {}{}; expected one dtype", op, Name(a.dtype()),
                          ToString(a.shape()), Name(b.dtype()), ToString(b.shape()));
  }
}

inline void CheckDType(std::string_view op, std::string_view name, const Tensor& x,
                       DType expected) {
  if (x.dtype() != expected) {
    throw InvalidArgument("{}: {} is {}{}; expected {}", op, name, Name(x.dtype()),
                          ToString(x.shape()), Name(expected));
  }
}

inline void CheckSame(std::string_view op, const Tensor& a, const Tensor& b) {
  CheckDTypes(op, a, b);
  if (a.shape() != b.shape()) {
    throw InvalidArgument("{}: operands are {} and {}; expected one shape", op, ToString(a.shape()),
                          ToString(b.shape()));
  }
}

inline void CheckIndices(std::string_view op, std::string_view name, const Tensor& x) {
  if (x.dtype() != DType::kI64) {
    throw InvalidArgument("{}: {} is {}; expected i64", op, name, Name(x.dtype()));
  }
}

}  // namespace plumbline::host

#endif  // PLUMBLINE_KERNELS_HOST_COMMON_H_
