// The oracle's matrices: Eigen's, row-major, of any scalar.
//
// An activation [S, B, N] is a matrix of S * B rows, row s * B + b. A vector [N] is a matrix of one
// row; an absent one has no elements.
#ifndef PLUMBLINE_ORACLE_MATRIX_H_
#define PLUMBLINE_ORACLE_MATRIX_H_

#include <Eigen/Core>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/context.h"
#include "base/tensor.h"

namespace plumbline {

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// A view of some columns of every B-th row: one head of one sample.
template <class T>
using StridedView = Eigen::Map<Matrix<T>, Eigen::Unaligned, Eigen::OuterStride<>>;
template <class T>
using ConstStridedView = Eigen::Map<const Matrix<T>, Eigen::Unaligned, Eigen::OuterStride<>>;

// Whether tensors can hold the scalar. Dual numbers they cannot.
template <class T>
concept Storable = requires {
  DTypeTraits<T>::kDType;
};

template <Storable T>
Tensor ToTensor(const Matrix<T>& matrix, Shape shape) {
  Tensor tensor = Tensor::Empty(Context{}, kDTypeOf<T>, std::move(shape));
  PL_CHECK(tensor.elements() == static_cast<int64_t>(matrix.size()));
  if (matrix.size() != 0) std::memcpy(tensor.raw(), matrix.data(), tensor.bytes());
  return tensor;
}

template <Storable T>
Matrix<T> ToMatrix(const Tensor& tensor) {
  PL_CHECK(tensor.contiguous());
  PL_CHECK(tensor.dims() <= 2);
  const int64_t rows = tensor.dims() == 2 ? tensor.dim(0) : 1;
  Matrix<T> matrix(rows, rows == 0 ? 0 : tensor.elements() / rows);
  if (matrix.size() != 0) std::memcpy(matrix.data(), tensor.data<T>(), tensor.bytes());
  return matrix;
}

}  // namespace plumbline

#endif  // PLUMBLINE_ORACLE_MATRIX_H_
