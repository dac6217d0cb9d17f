// The activation between linear_fc1 and linear_fc2.
//
//   gelu_tanh:    y = x/2 (1 + t),  t = tanh(u), u = c (x + a x^3), c = sqrt(2/pi), a = 0.044715
//                 y' = (1 + t)/2 + x/2 (1 - t^2) c (1 + 3 a x^2)
//   gelu_erf:     y = x Phi(x)
//                 y' = Phi(x) + x phi(x)
//   squared_relu: y = max(x, 0)^2
//                 y' = 2 max(x, 0) [x > 0]
//   swiglu:       y = silu(gate) up, silu(z) = z s(z), s = 1 / (1 + exp(-z))
//                 dgate = dy up s (1 + z (1 - s)), dup = dy silu(gate)
//
// Shapes:   x [rows, F] -> y [rows, F]; swiglu x [rows, 2F] (gate, then up) -> y [rows, F].
// Source:   Hendrycks and Gimpel 2016; So et al. 2021; Shazeer 2020.
#ifndef PLUMBLINE_ORACLE_ACTIVATION_H_
#define PLUMBLINE_ORACLE_ACTIVATION_H_

#include "base/config.h"
#include "base/scalar.h"
#include "oracle/matrix.h"

namespace plumbline {

// y of one element, and its derivative.
template <class T>
struct GeluTanh {
  const T one = ScalarTraits<T>::FromInt(1);
  const T two = ScalarTraits<T>::FromInt(2);
  const T three = ScalarTraits<T>::FromInt(3);
  const T c = ScalarTraits<T>::FromDouble(0.7978845608028654);  // sqrt(2/pi)
  const T a = ScalarTraits<T>::FromDouble(0.044715);

  T Value(T x) const {
    const T t = ScalarTraits<T>::Tanh(c * (x + a * x * x * x));
    return x / two * (one + t);
  }
  T Derivative(T x) const {
    const T t = ScalarTraits<T>::Tanh(c * (x + a * x * x * x));
    return (one + t) / two + x / two * (one - t * t) * c * (one + three * a * x * x);
  }
};

template <class T>
struct GeluErf {
  T Value(T x) const { return x * ScalarTraits<T>::NormalCdf(x); }
  T Derivative(T x) const {
    return ScalarTraits<T>::NormalCdf(x) + x * ScalarTraits<T>::NormalPdf(x);
  }
};

template <class T>
struct SquaredRelu {
  T Value(T x) const {
    const T positive = ScalarTraits<T>::Relu(x);
    return positive * positive;
  }
  T Derivative(T x) const {
    return ScalarTraits<T>::FromInt(2) * ScalarTraits<T>::Relu(x) * ScalarTraits<T>::Step(x);
  }
};

namespace internal {

template <class T, class Function>
Matrix<T> ElementwiseForward(const Function& f, const Matrix<T>& x) {
  return x.unaryExpr([&f](const T& v) { return f.Value(v); });
}
template <class T, class Function>
Matrix<T> ElementwiseBackward(const Function& f, const Matrix<T>& dy, const Matrix<T>& x) {
  return dy.binaryExpr(x, [&f](const T& d, const T& v) { return T(d * f.Derivative(v)); });
}

template <class T>
Matrix<T> SwigluForward(const Matrix<T>& x) {
  const Eigen::Index size = x.cols() / 2;
  return x.leftCols(size).binaryExpr(x.rightCols(size), [](const T& gate, const T& up) {
    return T(gate * ScalarTraits<T>::Sigmoid(gate) * up);
  });
}

template <class T>
Matrix<T> SwigluBackward(const Matrix<T>& dy, const Matrix<T>& x) {
  const T one = ScalarTraits<T>::FromInt(1);
  Matrix<T> dx(x.rows(), x.cols());
  for (Eigen::Index row = 0; row < dy.rows(); ++row) {
    for (Eigen::Index i = 0; i < dy.cols(); ++i) {
      const T z = x(row, i);
      const T up = x(row, dy.cols() + i);
      const T s = ScalarTraits<T>::Sigmoid(z);
      dx(row, i) = dy(row, i) * up * s * (one + z * (one - s));
      dx(row, dy.cols() + i) = dy(row, i) * z * s;
    }
  }
  return dx;
}

}  // namespace internal

template <class T>
Matrix<T> ActivationForward(Activation kind, const Matrix<T>& x) {
  switch (kind) {
    case Activation::kGeluTanh:
      return internal::ElementwiseForward(GeluTanh<T>{}, x);
    case Activation::kGeluErf:
      return internal::ElementwiseForward(GeluErf<T>{}, x);
    case Activation::kSquaredRelu:
      return internal::ElementwiseForward(SquaredRelu<T>{}, x);
    case Activation::kSwiglu:
      return internal::SwigluForward(x);
  }
  throw Internal("activation {}", static_cast<int>(kind));
}

// dx from dy and the forward's input.
template <class T>
Matrix<T> ActivationBackward(Activation kind, const Matrix<T>& dy, const Matrix<T>& x) {
  switch (kind) {
    case Activation::kGeluTanh:
      return internal::ElementwiseBackward(GeluTanh<T>{}, dy, x);
    case Activation::kGeluErf:
      return internal::ElementwiseBackward(GeluErf<T>{}, dy, x);
    case Activation::kSquaredRelu:
      return internal::ElementwiseBackward(SquaredRelu<T>{}, dy, x);
    case Activation::kSwiglu:
      return internal::SwigluBackward(dy, x);
  }
  throw Internal("activation {}", static_cast<int>(kind));
}

}  // namespace plumbline

#endif  // PLUMBLINE_ORACLE_ACTIVATION_H_
