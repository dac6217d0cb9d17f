// From per-token losses to the loss of a step, in Megatron's two normalisations.
//
// Default:                  microbatch loss = sum of counted token losses / number counted;
//                           step loss = mean of the microbatch losses.
// calculate_per_token_loss: microbatch loss = sum of counted token losses;
//                           step loss = sum of the microbatch losses / number counted in the step.
// A count of 0 counts as 1, so that a microbatch without labels has loss 0.
//
// Numerics: the divisors are computed in the scalar from integers; tokens that do not count are
//           skipped.
// Source:   Megatron-LM pretrain_gpt.py, loss_func, and schedules.py, forward_step.
#ifndef PLUMBLINE_ORACLE_LOSS_H_
#define PLUMBLINE_ORACLE_LOSS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/config.h"
#include "base/scalar.h"
#include "oracle/matrix.h"

namespace plumbline {

// Which tokens count, one flag per row.
using LabelMask = std::vector<bool>;

inline int64_t CountLabels(const LabelMask& mask) {
  return static_cast<int64_t>(std::count(mask.begin(), mask.end(), true));
}

struct LossNormalization {
  bool per_token = false;
  int64_t microbatches = 1;  // of the step
  int64_t step_labels = 0;   // counted labels of the step
};

// The microbatch's `loss`.
template <class T>
T MicrobatchLoss(const LossNormalization& rule, const Matrix<T>& token_loss,
                 const LabelMask& mask) {
  using Scalar = ScalarTraits<T>;
  T sum = Scalar::FromInt(0);
  for (size_t t = 0; t < mask.size(); ++t) {
    if (mask[t]) sum += token_loss(static_cast<Eigen::Index>(t), 0);
  }
  if (rule.per_token) return sum;
  return sum / Scalar::FromInt(std::max<int64_t>(CountLabels(mask), 1));
}

// The step's loss from the sum of its microbatches' losses.
template <class T>
T StepLoss(const LossNormalization& rule, const T& sum_of_microbatch_losses) {
  const int64_t divisor =
      rule.per_token ? std::max<int64_t>(rule.step_labels, 1) : rule.microbatches;
  return sum_of_microbatch_losses / ScalarTraits<T>::FromInt(divisor);
}

// d(step loss) / d(token loss), [T, 1].
template <class T>
Matrix<T> TokenLossGradient(const LossNormalization& rule, const LabelMask& mask) {
  using Scalar = ScalarTraits<T>;
  const T one = Scalar::FromInt(1);
  T weight = StepLoss(rule, one);
  if (!rule.per_token) weight = weight / Scalar::FromInt(std::max<int64_t>(CountLabels(mask), 1));
  Matrix<T> gradient = Matrix<T>::Zero(static_cast<Eigen::Index>(mask.size()), 1);
  for (size_t t = 0; t < mask.size(); ++t) {
    if (mask[t]) gradient(static_cast<Eigen::Index>(t), 0) = weight;
  }
  return gradient;
}

}  // namespace plumbline

#endif  // PLUMBLINE_ORACLE_LOSS_H_
