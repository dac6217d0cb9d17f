// What the operators' tests share: random and scattered tensors, matchers, finite differences.
#ifndef PLUMBLINE_TESTS_KERNELS_OPERATOR_TEST_UTIL_H_
#define PLUMBLINE_TESTS_KERNELS_OPERATOR_TEST_UTIL_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "base/compare.h"
#include "base/context.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/rng.h"
#include "base/tensor.h"

namespace plumbline {

// For GoogleTest, which would print the bytes of the handle.
inline void PrintTo(const Tensor& x, std::ostream* out) {
  *out << (x.defined() ? fmt::format("{}{}", Name(x.dtype()), ToString(x.shape())) : "undefined");
}

}  // namespace plumbline

namespace plumbline::testing {

// References are computed in this, whose rounding is far below every bound.
using Wide = long double;

inline const Context kContext = {};

// Normal numbers, rounded to T; `name` picks the stream.
template <class T>
Tensor Random(const Shape& shape, const std::string& name) {
  const RandomStream stream = DataStream(1, name);
  std::vector<T> values(static_cast<size_t>(ElementsOf(shape)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(stream.Normal(i));
  return Tensor::FromVector<T>(kContext, shape, values);
}

// The same values in a view with gaps and, from two dimensions on, with the first and the last
// axis swapped in memory. The gaps hold NaN, which reaches any result that reads them.
template <class T>
Tensor Scattered(const Tensor& x) {
  if (x.dims() == 0) return x.Clone(kContext);
  Shape storage = x.shape();
  std::swap(storage.front(), storage.back());
  storage.back() = 2 * storage.back() + 1;
  Tensor view = Tensor::Empty(kContext, x.dtype(), storage);
  view = view.Slice(-1, 1, 1 + x.dim(0)).Transpose(0, -1);
  view.CopyFrom(x);
  return view;
}

// The double values of a tensor of T, in row-major order.
template <class T>
std::vector<Wide> WideValues(const Tensor& x) {
  const std::vector<T> values = x.ToVector<T>();
  return std::vector<Wide>(values.begin(), values.end());
}

// Deviation (base/compare.h) of a tensor from a reference in row-major order; infinity for a NaN.
template <class T>
double DeviationFrom(const Tensor& actual, const std::vector<Wide>& reference) {
  const std::vector<T> values = actual.ToVector<T>();
  if (values.size() != reference.size()) return std::numeric_limits<double>::infinity();
  Wide largest = 0;
  Wide difference = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const Wide d = std::abs(static_cast<Wide>(values[i]) - reference[i]);
    if (!(d <= std::numeric_limits<Wide>::max())) return std::numeric_limits<double>::infinity();
    difference = std::max(difference, d);
    largest = std::max(largest, std::abs(reference[i]));
  }
  if (difference == 0) return 0;
  return static_cast<double>(difference / largest);
}

// `terms` roundings of T, each at most half an epsilon, relative to the largest result; the factor
// is for sums whose terms exceed it.
template <class T>
double Bound(int64_t terms) {
  return 4 * static_cast<double>(terms) * static_cast<double>(std::numeric_limits<T>::epsilon());
}

MATCHER_P(BitEquals, reference, "has the bits of the reference") {
  if (arg.dtype() != reference.dtype() || arg.shape() != reference.shape()) {
    *result_listener << ToString(arg.shape()) << " and " << ToString(reference.shape());
    return false;
  }
  const Match match = Matches(arg, reference, Strength::Bitwise());
  *result_listener << match.message;
  return match.ok;
}

// Central differences of f at x, element by element: error about step^2 times the third derivative
// plus epsilon / step, near 1e-10 for functions of order 1.
inline std::vector<Wide> FiniteDifferences(const std::function<Wide(const Tensor&)>& f,
                                           const Tensor& x) {
  constexpr double kStep = 1e-5;
  Tensor moved = x.Clone(kContext);
  std::vector<Wide> result(static_cast<size_t>(x.elements()));
  for (size_t i = 0; i < result.size(); ++i) {
    double* element = moved.data<double>() + i;
    const double value = *element;
    *element = value + kStep;
    const Wide above = f(moved);
    const double up = *element;
    *element = value - kStep;
    result[i] = (above - f(moved)) / (static_cast<Wide>(up) - static_cast<Wide>(*element));
    *element = value;
  }
  return result;
}
// Between the error of FiniteDifferences and any wrong derivative.
inline constexpr double kDifferenceBound = 1e-8;

// <a, b> of f64 tensors: turns an operator's result into a number whose gradient is b.
inline Wide Inner(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = a.ToVector<double>();
  const std::vector<double> y = b.ToVector<double>();
  Wide sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += static_cast<Wide>(x[i]) * static_cast<Wide>(y[i]);
  return sum;
}

// `x` with one element replaced by NaN.
template <class T>
Tensor WithNan(const Tensor& x, int64_t element) {
  Tensor result = x.Clone(kContext);
  result.data<T>()[element] = std::numeric_limits<T>::quiet_NaN();
  return result;
}

// Row-major indices of the elements that are NaN.
template <class T>
std::vector<int64_t> NanElements(const Tensor& x) {
  std::vector<int64_t> result;
  const std::vector<T> values = x.ToVector<T>();
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] != values[i]) result.push_back(static_cast<int64_t>(i));
  }
  return result;
}

using ScalarTypes = ::testing::Types<double, float>;
struct ScalarNames {
  template <class T>
  static std::string GetName(int) {
    return std::string(Name(kDTypeOf<T>));
  }
};

}  // namespace plumbline::testing

#endif  // PLUMBLINE_TESTS_KERNELS_OPERATOR_TEST_UTIL_H_
