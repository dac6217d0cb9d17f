// Softmax of one row of complete scores: p_j = exp(z_j - m) / sum_k exp(z_k - m), m the largest.
//
// Numerics: a score enters the exponent group once (ToScore); the result does not depend on m.
// Source:   Bridle 1990; the shift is the usual guard against overflow.
#ifndef PLUMBLINE_ORACLE_SOFTMAX_H_
#define PLUMBLINE_ORACLE_SOFTMAX_H_

#include <cstdint>

#include "base/scalar.h"

namespace plumbline {

// Writes n probabilities (n > 0; in place is fine) and returns log sum_k exp(z_k).
template <class T>
typename ScalarTraits<T>::LogSum Softmax(const T* scores, int64_t n, T* probabilities) {
  using Scalar = ScalarTraits<T>;
  typename Scalar::Score max = Scalar::LowestScore();
  for (int64_t j = 0; j < n; ++j) max = Scalar::Max(max, Scalar::ToScore(scores[j]));
  T sum = Scalar::FromInt(0);
  for (int64_t j = 0; j < n; ++j) {
    probabilities[j] = Scalar::ExpShifted(Scalar::ToScore(scores[j]), max);
    sum += probabilities[j];
  }
  const T reciprocal = Scalar::FromInt(1) / sum;
  for (int64_t j = 0; j < n; ++j) probabilities[j] = probabilities[j] * reciprocal;
  return Scalar::MakeLogSum(max, sum);
}

}  // namespace plumbline

#endif  // PLUMBLINE_ORACLE_SOFTMAX_H_
