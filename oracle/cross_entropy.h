// Cross entropy of logits z against a target class y, with label smoothing s over V classes.
//
//   p_j = exp(z_j) / sum_k exp(z_k)
//   loss = -(1 - s) log p_y - s / (V - 1) sum_{j != y} log p_j
//        = log sum_k exp(z_k) - sum_j q_j z_j,  q_y = 1 - s, q_j = s / (V - 1) for j != y
//   dloss/dz_j = p_j - q_j
// Columns from V on are padding: they take no part and get no gradient.
//
// Shapes:   logits [T, columns], columns >= V; targets: one per row; loss [T, 1].
// Errors:   InvalidArgument when a target is not in [0, V).
// Source:   Szegedy et al. 2016, section 7, spread over the V - 1 other classes.
#ifndef PLUMBLINE_ORACLE_CROSS_ENTROPY_H_
#define PLUMBLINE_ORACLE_CROSS_ENTROPY_H_

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "base/scalar.h"
#include "oracle/matrix.h"
#include "oracle/softmax.h"

namespace plumbline {

// q of the formula: what the target class and every other class weigh.
template <class T>
struct TargetWeights {
  T target;
  T other;
};

template <class T>
TargetWeights<T> MakeTargetWeights(int64_t classes, double label_smoothing) {
  using Scalar = ScalarTraits<T>;
  if (label_smoothing == 0) return {Scalar::FromInt(1), Scalar::FromInt(0)};
  const T s = Scalar::FromDouble(label_smoothing);
  return {Scalar::FromInt(1) - s, s / Scalar::FromInt(classes - 1)};
}

// Keeps p in `probabilities` for the backward, 0 in the padding.
template <class T>
Matrix<T> CrossEntropyForward(const Matrix<T>& logits, const std::vector<int64_t>& targets,
                              int64_t classes, double label_smoothing, Matrix<T>& probabilities) {
  const TargetWeights<T> q = MakeTargetWeights<T>(classes, label_smoothing);
  probabilities = Matrix<T>::Zero(logits.rows(), logits.cols());
  Matrix<T> loss(logits.rows(), 1);
  for (Eigen::Index t = 0; t < logits.rows(); ++t) {
    const int64_t y = targets[static_cast<size_t>(t)];
    if (y < 0 || y >= classes) throw InvalidArgument("label {} of {} classes", y, classes);
    const auto log_sum = Softmax<T>(&logits(t, 0), classes, &probabilities(t, 0));
    T weighted = q.target * logits(t, y);
    if (label_smoothing != 0) {
      weighted += q.other * (logits.row(t).head(classes).sum() - logits(t, y));
    }
    loss(t, 0) = ScalarTraits<T>::Log(log_sum) - weighted;
  }
  return loss;
}

// dlogits from dloss [T, 1] and the forward's probabilities.
template <class T>
Matrix<T> CrossEntropyBackward(const Matrix<T>& dloss, const Matrix<T>& probabilities,
                               const std::vector<int64_t>& targets, int64_t classes,
                               double label_smoothing) {
  const TargetWeights<T> q = MakeTargetWeights<T>(classes, label_smoothing);
  Matrix<T> dlogits = Matrix<T>::Zero(probabilities.rows(), probabilities.cols());
  for (Eigen::Index t = 0; t < dlogits.rows(); ++t) {
    const int64_t y = targets[static_cast<size_t>(t)];
    for (int64_t j = 0; j < classes; ++j) {
      dlogits(t, j) = dloss(t, 0) * (probabilities(t, j) - (j == y ? q.target : q.other));
    }
  }
  return dlogits;
}

}  // namespace plumbline

#endif  // PLUMBLINE_ORACLE_CROSS_ENTROPY_H_
