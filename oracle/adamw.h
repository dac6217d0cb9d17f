// AdamW with bias correction.
//
//   p = p - lr wd p                            (decoupled weight decay)
//   m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
//   p = p - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
//
// Shapes:   all alike. t counts from 1.
// Numerics: every coefficient is computed in the scalar, b^t by multiplication.
// Source:   Kingma and Ba 2015, algorithm 1; Loshchilov and Hutter 2019, algorithm 2.
#ifndef PLUMBLINE_ORACLE_ADAMW_H_
#define PLUMBLINE_ORACLE_ADAMW_H_

#include <cstdint>

#include "base/field.h"
#include "base/scalar.h"
#include "oracle/matrix.h"

namespace plumbline {

struct AdamWRule {
  double lr = 0;
  double beta1 = 0;
  double beta2 = 0;
  double eps = 0;
  double weight_decay = 0;  // of this parameter
  int64_t step = 1;
};

namespace internal {

// x / n for many x: over a field, where division is slow and exact, the inverse is taken once.
template <class T>
auto DivisionBy(const T& n) {
  if constexpr (kIsField<T>) {
    const T inverse = ScalarTraits<T>::FromInt(1) / n;
    return [inverse](const T& x) { return x * inverse; };
  } else {
    return [n](const T& x) { return x / n; };
  }
}

}  // namespace internal

template <class T>
void AdamWStep(const AdamWRule& rule, const Matrix<T>& gradient, Matrix<T>& parameter,
               Matrix<T>& exp_avg, Matrix<T>& exp_avg_sq) {
  using Scalar = ScalarTraits<T>;
  const T one = Scalar::FromInt(1);
  const T lr = Scalar::FromDouble(rule.lr);
  const T decay = lr * Scalar::FromDouble(rule.weight_decay);
  const T b1 = Scalar::FromDouble(rule.beta1);
  const T b2 = Scalar::FromDouble(rule.beta2);
  const T eps = Scalar::FromDouble(rule.eps);
  const auto corrected1 = internal::DivisionBy<T>(one - PowInt(b1, rule.step));
  const auto corrected2 = internal::DivisionBy<T>(one - PowInt(b2, rule.step));
  for (Eigen::Index i = 0; i < parameter.size(); ++i) {
    const T g = gradient.data()[i];
    T& p = parameter.data()[i];
    T& m = exp_avg.data()[i];
    T& v = exp_avg_sq.data()[i];
    p = p - decay * p;
    m = b1 * m + (one - b1) * g;
    v = b2 * v + (one - b2) * g * g;
    p = p - lr * corrected1(m) / (Scalar::Sqrt(corrected2(v)) + eps);
  }
}

}  // namespace plumbline

#endif  // PLUMBLINE_ORACLE_ADAMW_H_
