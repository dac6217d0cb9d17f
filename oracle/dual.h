// Forward-mode dual numbers: a value and its derivative along one direction.
//
//   (a + a' e) (b + b' e) = a b + (a' b + a b') e,  f(a + a' e) = f(a) + f'(a) a' e,  e^2 = 0
// A program run over Dual<T> computes, beside its values, the directional derivative of each.
//
// ScalarTraits<Dual<T>> is the whole list of elementary functions. The value is T's own; each
// derivative is algebra over T's functions, so that it holds over a prime field too, where they
// are uninterpreted: sqrt' = 1/(2 sqrt), s' = s (1 - s), tanh' = 1 - tanh^2, Phi' = phi,
// phi' = -x phi, max(x, 0)' = step(x). The shift of a softmax cancels, so its tangent is 0.
//
// Source:   Griewank and Walther 2008, chapter 3.
#ifndef PLUMBLINE_ORACLE_DUAL_H_
#define PLUMBLINE_ORACLE_DUAL_H_

#include <Eigen/Core>
#include <cstdint>

#include "base/scalar.h"

namespace plumbline {

template <class T>
struct Dual {
  T value;
  T tangent;

  Dual() : Dual(0) {}
  explicit Dual(int n) : Dual(ScalarTraits<T>::FromInt(n)) {}
  explicit Dual(const T& v) : value(v), tangent(ScalarTraits<T>::FromInt(0)) {}
  Dual(const T& v, const T& d) : value(v), tangent(d) {}

  friend Dual operator+(const Dual& a, const Dual& b) {
    return {a.value + b.value, a.tangent + b.tangent};
  }
  friend Dual operator-(const Dual& a, const Dual& b) {
    return {a.value - b.value, a.tangent - b.tangent};
  }
  friend Dual operator-(const Dual& a) { return {-a.value, -a.tangent}; }
  friend Dual operator*(const Dual& a, const Dual& b) {
    return {a.value * b.value, a.tangent * b.value + a.value * b.tangent};
  }
  friend Dual operator/(const Dual& a, const Dual& b) {
    const T quotient = a.value / b.value;
    return {quotient, (a.tangent - quotient * b.tangent) / b.value};
  }
  Dual& operator+=(const Dual& b) { return *this = *this + b; }
  Dual& operator-=(const Dual& b) { return *this = *this - b; }
  Dual& operator*=(const Dual& b) { return *this = *this * b; }
  Dual& operator/=(const Dual& b) { return *this = *this / b; }
  friend bool operator==(const Dual& a, const Dual& b) {
    return a.value == b.value && a.tangent == b.tangent;
  }
};

template <class T>
struct ScalarTraits<Dual<T>> {
  using Base = ScalarTraits<T>;

  struct Score {
    typename Base::Score value;
    T tangent;
  };
  struct LogSum {
    typename Base::LogSum value;
    T tangent;
  };

  static Dual<T> FromInt(int64_t n) { return Dual<T>(Base::FromInt(n)); }
  static Dual<T> FromDouble(double literal) { return Dual<T>(Base::FromDouble(literal)); }
  static double ToDouble(const Dual<T>& x) { return Base::ToDouble(x.value); }

  static Dual<T> Sqrt(const Dual<T>& x) {
    const T root = Base::Sqrt(x.value);
    return {root, x.tangent / (Base::FromInt(2) * root)};
  }
  static Dual<T> Sigmoid(const Dual<T>& x) {
    const T s = Base::Sigmoid(x.value);
    return {s, s * (Base::FromInt(1) - s) * x.tangent};
  }
  static Dual<T> Tanh(const Dual<T>& x) {
    const T t = Base::Tanh(x.value);
    return {t, (Base::FromInt(1) - t * t) * x.tangent};
  }
  static Dual<T> NormalCdf(const Dual<T>& x) {
    return {Base::NormalCdf(x.value), Base::NormalPdf(x.value) * x.tangent};
  }
  static Dual<T> NormalPdf(const Dual<T>& x) {
    const T density = Base::NormalPdf(x.value);
    return {density, -(x.value * density * x.tangent)};
  }
  // The coefficient moves with the ratio where it is the ratio, and is constant where it is 1.
  static Dual<T> ClipCoefficient(const Dual<T>& max_norm, const Dual<T>& norm) {
    const Dual<T> ratio = max_norm / (norm + FromDouble(1e-6));
    const T coefficient = Base::ClipCoefficient(max_norm.value, norm.value);
    return {coefficient, coefficient == ratio.value ? ratio.tangent : Base::FromInt(0)};
  }
  static Dual<T> Relu(const Dual<T>& x) {
    return {Base::Relu(x.value), Base::Step(x.value) * x.tangent};
  }
  static Dual<T> Step(const Dual<T>& x) { return Dual<T>(Base::Step(x.value)); }

  static Rotation<Dual<T>> Rotary(int64_t position, int64_t index, double inverse_frequency) {
    const Rotation<T> rotation = Base::Rotary(position, index, inverse_frequency);
    return {Dual<T>(rotation.cos), Dual<T>(rotation.sin)};
  }

  static Score ToScore(const Dual<T>& x) { return {Base::ToScore(x.value), x.tangent}; }
  static Score LowestScore() { return {Base::LowestScore(), Base::FromInt(0)}; }
  static Score Max(const Score& a, const Score& b) {
    return {Base::Max(a.value, b.value), Base::FromInt(0)};
  }
  static Dual<T> ExpShifted(const Score& s, const Score& shift) {
    const T e = Base::ExpShifted(s.value, shift.value);
    return {e, e * (s.tangent - shift.tangent)};
  }
  static LogSum MakeLogSum(const Score& max, const Dual<T>& sum) {
    return {Base::MakeLogSum(max.value, sum.value), max.tangent + sum.tangent / sum.value};
  }
  static LogSum LogAdd(const LogSum& a, const LogSum& b) {
    const typename Base::LogSum total = Base::LogAdd(a.value, b.value);
    return {total,
            Base::Weight(a.value, total) * a.tangent + Base::Weight(b.value, total) * b.tangent};
  }
  static Dual<T> Probability(const Score& s, const LogSum& l) {
    const T p = Base::Probability(s.value, l.value);
    return {p, p * (s.tangent - l.tangent)};
  }
  static Dual<T> Weight(const LogSum& a, const LogSum& b) {
    const T weight = Base::Weight(a.value, b.value);
    return {weight, weight * (a.tangent - b.tangent)};
  }
  static Dual<T> Log(const LogSum& l) { return {Base::Log(l.value), l.tangent}; }
};

}  // namespace plumbline

namespace Eigen {

template <class T>
struct NumTraits<plumbline::Dual<T>> {
  using Real = plumbline::Dual<T>;
  using NonInteger = plumbline::Dual<T>;
  using Literal = plumbline::Dual<T>;
  using Nested = plumbline::Dual<T>;
  enum {
    IsComplex = 0,
    IsInteger = 0,
    IsSigned = 1,
    RequireInitialization = 1,
    ReadCost = 2,
    AddCost = 2,
    MulCost = 5
  };
};

}  // namespace Eigen

#endif  // PLUMBLINE_ORACLE_DUAL_H_
