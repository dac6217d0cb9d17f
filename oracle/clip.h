// Clipping of gradients by their global norm.
//
//   norm = sqrt(sum over all parameters of g^2);  coefficient = min(1, clip / (norm + 1e-6))
// A tied weight is one parameter and counts once. The coefficient multiplies every gradient.
//
// Source:   Pascanu et al. 2013; Megatron-Core clip_grads.py.
#ifndef PLUMBLINE_ORACLE_CLIP_H_
#define PLUMBLINE_ORACLE_CLIP_H_

#include <vector>

#include "base/scalar.h"
#include "oracle/matrix.h"

namespace plumbline {

template <class T>
T GradientNorm(const std::vector<Matrix<T>*>& gradients) {
  T sum = ScalarTraits<T>::FromInt(0);
  for (const Matrix<T>* gradient : gradients) sum += gradient->cwiseProduct(*gradient).sum();
  return ScalarTraits<T>::Sqrt(sum);
}

template <class T>
T ClipCoefficient(double clip_grad, const T& norm) {
  return ScalarTraits<T>::ClipCoefficient(ScalarTraits<T>::FromDouble(clip_grad), norm);
}

}  // namespace plumbline

#endif  // PLUMBLINE_ORACLE_CLIP_H_
