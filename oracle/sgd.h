// Stochastic gradient descent with momentum and coupled weight decay.
//
//   g' = g + wd p;  v = g' at step 1, then mu v + g';  p = p - lr v
// Without momentum p = p - lr g', and there is no buffer.
//
// Shapes:   all alike; the buffer has no elements without momentum. t counts from 1.
// Source:   Sutskever et al. 2013, in the form of PyTorch's SGD (no dampening, no Nesterov).
#ifndef PLUMBLINE_ORACLE_SGD_H_
#define PLUMBLINE_ORACLE_SGD_H_

#include <cstdint>

#include "base/scalar.h"
#include "oracle/matrix.h"

namespace plumbline {

struct SgdRule {
  double lr = 0;
  double momentum = 0;
  double weight_decay = 0;  // of this parameter
  int64_t step = 1;
};

template <class T>
void SgdStep(const SgdRule& rule, const Matrix<T>& gradient, Matrix<T>& parameter,
             Matrix<T>& momentum_buffer) {
  using Scalar = ScalarTraits<T>;
  const T lr = Scalar::FromDouble(rule.lr);
  const T mu = Scalar::FromDouble(rule.momentum);
  const T decay = Scalar::FromDouble(rule.weight_decay);
  Matrix<T> direction = gradient + decay * parameter;
  if (rule.momentum != 0) {
    if (rule.step > 1) direction += mu * momentum_buffer;
    momentum_buffer = direction;
  }
  parameter -= lr * direction;
}

}  // namespace plumbline

#endif  // PLUMBLINE_ORACLE_SGD_H_
