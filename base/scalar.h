// The closed list of scalar functions by which the oracle and the kernels compute: one
// specialisation per element type.
//
// Everything else in an operator is + - * / of T, so that the same source runs over double, float,
// dual numbers and a prime field. Rules that keep it so:
//   * literals enter through FromDouble, counts through FromInt; derived coefficients (1/n,
//   1/sqrt(d), 1 - beta^t) are
//     computed in T; no T becomes a double but for printing;
//   * the elementary functions here are applied to complete (fully reduced) arguments only;
//   * an attention score or a logit becomes a Score once, when it is complete (scaled, biased,
//   summed); exp takes only
//     Scores; a log-sum-exp is a LogSum and never an ordinary T;
//   * masked positions are skipped, or are LowestScore(); never a large negative number;
//   * no branch on values but through Max's total order.
#ifndef PLUMBLINE_BASE_SCALAR_H_
#define PLUMBLINE_BASE_SCALAR_H_

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <numbers>

namespace plumbline {

// cos and sin of a rotary angle.
template <class T>
struct Rotation {
  T cos;
  T sin;
};

template <class T>
struct ScalarTraits;

template <std::floating_point T>
struct ScalarTraits<T> {
  // A complete score, ready for exp. Plain data, the size of T, so that tensors can hold it.
  struct Score {
    T value;
  };
  // log(sum_i exp(score_i)), kept in the log domain.
  struct LogSum {
    T value;
  };

  static T FromInt(int64_t n) { return static_cast<T>(n); }
  static T FromDouble(double literal) { return static_cast<T>(literal); }
  static double ToDouble(T x) {
    return static_cast<double>(x);
  }  // For printing and comparison only.

  static T Sqrt(T x) { return std::sqrt(x); }
  static T Sigmoid(T x) { return T(1) / (T(1) + std::exp(-x)); }
  static T Tanh(T x) { return std::tanh(x); }
  static T NormalCdf(T x) { return std::erfc(-x / std::numbers::sqrt2_v<T>) / T(2); }
  static T NormalPdf(T x) {
    return std::exp(-x * x / T(2)) / std::sqrt(T(2) * std::numbers::pi_v<T>);
  }
  // min(1, max_norm / (norm + 1e-6)), Megatron's clip coefficient. NaN stays NaN.
  static T ClipCoefficient(T max_norm, T norm) {
    const T ratio = max_norm / (norm + T(1e-6));
    return ratio > T(1) ? T(1) : ratio;
  }
  // max(x, 0), for squared ReLU.
  static T Relu(T x) { return x > T(0) ? x : (x == x ? T(0) : x); }
  // 1 where x > 0, else 0.
  static T Step(T x) { return x > T(0) ? T(1) : T(0); }

  // The rotation by position * inverse_frequency; `index` is the number of the frequency.
  static Rotation<T> Rotary(int64_t position, int64_t index, double inverse_frequency) {
    (void)index;
    const double angle = static_cast<double>(position) * inverse_frequency;
    return {static_cast<T>(std::cos(angle)), static_cast<T>(std::sin(angle))};
  }

  static Score ToScore(T x) { return {x}; }
  static Score LowestScore() { return {-std::numeric_limits<T>::infinity()}; }
  // NaN wins, so that it is not lost in a maximum.
  static Score Max(Score a, Score b) { return (a.value > b.value || a.value != a.value) ? a : b; }
  // exp(s - shift); 0 for the lowest score, whatever the shift.
  static T ExpShifted(Score s, Score shift) {
    return s.value == -std::numeric_limits<T>::infinity() ? T(0) : std::exp(s.value - shift.value);
  }
  // log(exp(max) * sum), where sum = sum_i ExpShifted(s_i, max).
  static LogSum MakeLogSum(Score max, T sum) { return {max.value + std::log(sum)}; }
  // log(exp(a) + exp(b)).
  static LogSum LogAdd(LogSum a, LogSum b) {
    // Without these, two empty sums would be a NaN; and a NaN beside an empty one must stay.
    if (a.value == -std::numeric_limits<T>::infinity()) return b;
    if (b.value == -std::numeric_limits<T>::infinity()) return a;
    const T hi = std::max(a.value, b.value);
    return {hi + std::log(std::exp(a.value - hi) + std::exp(b.value - hi))};
  }
  // exp(s - l): a softmax probability; 0 for the lowest score, also where all scores are lowest.
  static T Probability(Score s, LogSum l) {
    return s.value == -std::numeric_limits<T>::infinity() ? T(0) : std::exp(s.value - l.value);
  }
  // exp(a - b): the weight of one block of keys in a merged softmax; 0 for a block without keys.
  static T Weight(LogSum a, LogSum b) {
    return a.value == -std::numeric_limits<T>::infinity() ? T(0) : std::exp(a.value - b.value);
  }
  // How tensors of T hold scores and log-sums.
  static T StoreScore(Score s) { return s.value; }
  static Score LoadScore(T stored) { return {stored}; }
  static T StoreLogSum(LogSum l) { return l.value; }
  static LogSum LoadLogSum(T stored) { return {stored}; }
  // The log-sum-exp as an ordinary number; once, at the end, for the loss.
  static T Log(LogSum l) { return l.value; }
};

// base^n by repeated squaring, in T.
template <class T>
T PowInt(T base, int64_t n) {
  T result = ScalarTraits<T>::FromInt(1);
  for (; n > 0; n >>= 1) {
    if ((n & 1) != 0) result = result * base;
    base = base * base;
  }
  return result;
}

}  // namespace plumbline

#endif  // PLUMBLINE_BASE_SCALAR_H_
