// The linear layer: Y = X W^T + b.
//
// Backward: dX = dY W, dW = dY^T X, db = sum over rows of dY.
//
// Shapes:   x [rows, in], weight [out, in], bias [1, out] or absent, y [rows, out].
// Source:   the chain rule; the layout [out, in] is PyTorch's.
#ifndef PLUMBLINE_ORACLE_LINEAR_H_
#define PLUMBLINE_ORACLE_LINEAR_H_

#include "oracle/matrix.h"
#include "oracle/product.h"

namespace plumbline {

template <class T>
Matrix<T> LinearForward(const Matrix<T>& x, const Matrix<T>& weight, const Matrix<T>& bias) {
  Matrix<T> y(x.rows(), weight.rows());
  SetProduct(y, x, weight.transpose());
  if (bias.size() != 0) y.rowwise() += bias.row(0);
  return y;
}

// Adds to dweight and dbias; returns dx.
template <class T>
Matrix<T> LinearBackward(const Matrix<T>& dy, const Matrix<T>& x, const Matrix<T>& weight,
                         Matrix<T>& dweight, Matrix<T>& dbias) {
  AddProduct(dweight, dy.transpose(), x);
  if (dbias.size() != 0) dbias.row(0) += dy.colwise().sum();
  Matrix<T> dx(x.rows(), x.cols());
  SetProduct(dx, dy, weight);
  return dx;
}

}  // namespace plumbline

#endif  // PLUMBLINE_ORACLE_LINEAR_H_
