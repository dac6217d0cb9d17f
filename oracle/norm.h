// LayerNorm and RMSNorm over each row.
//
// Write n for the normalised row and mean() for the average over its H elements:
//   LayerNorm: n = (x - mean(x)) r, r = 1 / sqrt(mean((x - mean(x))^2) + eps), y = n w + b
//   RMSNorm:   n = x r,             r = 1 / sqrt(mean(x^2) + eps),             y = n w
// Backward, with dn = dy w:
//   LayerNorm: dx = r (dn - mean(dn) - n mean(dn n))
//   RMSNorm:   dx = r (dn - n mean(dn n))
//   both:      dw = sum over rows of dy n, db = sum over rows of dy
//
// Shapes:   x, y [rows, H]; weight, bias [1, H]; RMSNorm has no bias.
// Source:   Ba et al. 2016; Zhang and Sennrich 2019.
#ifndef PLUMBLINE_ORACLE_NORM_H_
#define PLUMBLINE_ORACLE_NORM_H_

#include "base/config.h"
#include "base/scalar.h"
#include "oracle/matrix.h"

namespace plumbline {

template <class T>
struct NormSaved {
  Matrix<T> normalized;       // n
  Matrix<T> reciprocal_root;  // r, [rows, 1]
};

template <class T>
Matrix<T> NormForward(Normalization kind, const Matrix<T>& x, const Matrix<T>& weight,
                      const Matrix<T>& bias, double epsilon, NormSaved<T>& saved) {
  using Scalar = ScalarTraits<T>;
  const T count = Scalar::FromInt(x.cols());
  const T eps = Scalar::FromDouble(epsilon);
  saved.normalized = x;
  saved.reciprocal_root.resize(x.rows(), 1);
  for (Eigen::Index row = 0; row < x.rows(); ++row) {
    auto n = saved.normalized.row(row);
    if (kind == Normalization::kLayerNorm) n.array() -= T(n.sum() / count);
    const T mean_square = n.cwiseProduct(n).sum() / count;
    const T r = Scalar::FromInt(1) / Scalar::Sqrt(mean_square + eps);
    n *= r;
    saved.reciprocal_root(row, 0) = r;
  }
  Matrix<T> y = (saved.normalized.array().rowwise() * weight.row(0).array()).matrix();
  if (bias.size() != 0) y.rowwise() += bias.row(0);
  return y;
}

// Adds to dweight and dbias; returns dx.
template <class T>
Matrix<T> NormBackward(Normalization kind, const Matrix<T>& dy, const Matrix<T>& weight,
                       const NormSaved<T>& saved, Matrix<T>& dweight, Matrix<T>& dbias) {
  const T count = ScalarTraits<T>::FromInt(dy.cols());
  dweight.row(0) += dy.cwiseProduct(saved.normalized).colwise().sum();
  if (dbias.size() != 0) dbias.row(0) += dy.colwise().sum();
  Matrix<T> dx = (dy.array().rowwise() * weight.row(0).array()).matrix();  // dn at first
  for (Eigen::Index row = 0; row < dy.rows(); ++row) {
    auto dn = dx.row(row);
    const auto n = saved.normalized.row(row);
    const T mean_dn_n = dn.cwiseProduct(n).sum() / count;
    if (kind == Normalization::kLayerNorm) dn.array() -= T(dn.sum() / count);
    dn -= n * mean_dn_n;
    dn *= saved.reciprocal_root(row, 0);
  }
  return dx;
}

}  // namespace plumbline

#endif  // PLUMBLINE_ORACLE_NORM_H_
