// Products of the oracle's matrices: Eigen's, but over a prime field sums of whole products that
// are reduced seldom, which is several times as fast.
//
// Numerics: over a field every order of a sum gives the same residue.
#ifndef PLUMBLINE_ORACLE_PRODUCT_H_
#define PLUMBLINE_ORACLE_PRODUCT_H_

#include <cstdint>

#include "base/field.h"
#include "oracle/field_traits.h"
#include "oracle/matrix.h"

namespace plumbline {
namespace internal {

// result[i, j] = sum over l of a[i, l] b[j, l]; all row-major. Instantiated for the prime fields.
template <class T>
void FieldProduct(int64_t rows, int64_t columns, int64_t depth, const T* a, const T* b, T* result);

template <class T, class A, class B>
Matrix<T> ProductInField(const A& a, const B& b) {
  const Matrix<T> left = a;
  const Matrix<T> right = b.transpose();
  Matrix<T> result(left.rows(), right.rows());
  FieldProduct<T>(left.rows(), right.rows(), left.cols(), left.data(), right.data(), result.data());
  return result;
}

}  // namespace internal

// dst = a b. Nothing of dst is in a or b.
template <class Dst, class A, class B>
void SetProduct(Dst&& dst, const A& a, const B& b) {
  using T = typename A::Scalar;
  if constexpr (kIsField<T>) {
    dst = internal::ProductInField<T>(a, b);
  } else {
    dst.noalias() = a * b;
  }
}

// dst += a b.
template <class Dst, class A, class B>
void AddProduct(Dst&& dst, const A& a, const B& b) {
  using T = typename A::Scalar;
  if constexpr (kIsField<T>) {
    dst += internal::ProductInField<T>(a, b);
  } else {
    dst.noalias() += a * b;
  }
}

}  // namespace plumbline

#endif  // PLUMBLINE_ORACLE_PRODUCT_H_
