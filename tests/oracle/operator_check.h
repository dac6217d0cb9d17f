// Derivatives of one operator: dual numbers pushed through its forward against its backward.
#ifndef PLUMBLINE_TESTS_ORACLE_OPERATOR_CHECK_H_
#define PLUMBLINE_TESTS_ORACLE_OPERATOR_CHECK_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "base/rng.h"
#include "oracle/dual.h"
#include "oracle/matrix.h"

namespace plumbline {

template <class T>
using Matrices = std::vector<Matrix<T>>;

// Standard normal values that depend on the seed alone.
inline Matrix<double> RandomMatrix(uint64_t seed, Eigen::Index rows, Eigen::Index cols) {
  const RandomStream stream = DataStream(seed, "oracle tests");
  Matrix<double> matrix(rows, cols);
  for (Eigen::Index i = 0; i < matrix.size(); ++i) {
    matrix.data()[i] = stream.Normal(static_cast<uint64_t>(i));
  }
  return matrix;
}

// `forward<T>(Matrices<T>) -> Matrix<T>`; `backward(dy, inputs) -> one gradient an input`. Returns
// the worst relative error of <dy, forward's derivative along v> against <gradient, v>, over the
// inputs, each with a random direction v.
template <class Forward, class Backward>
double WorstJvpError(const Matrices<double>& inputs, Forward&& forward, Backward&& backward) {
  const Matrix<double> y = forward(inputs);
  const Matrix<double> dy = RandomMatrix(7001, y.rows(), y.cols());
  const Matrices<double> gradients = backward(dy, inputs);
  double worst = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Matrix<double> v = RandomMatrix(9001 + i, inputs[i].rows(), inputs[i].cols());
    Matrices<Dual<double>> lifted;
    for (size_t j = 0; j < inputs.size(); ++j) {
      lifted.emplace_back(inputs[j].rows(), inputs[j].cols());
      for (Eigen::Index e = 0; e < inputs[j].size(); ++e) {
        lifted[j].data()[e] = {inputs[j].data()[e], i == j ? v.data()[e] : 0.0};
      }
    }
    const Matrix<Dual<double>> moved = forward(lifted);
    double jvp = 0;
    for (Eigen::Index e = 0; e < moved.size(); ++e) jvp += dy.data()[e] * moved.data()[e].tangent;
    const double dot = gradients[i].cwiseProduct(v).sum();
    const double scale = std::max(std::abs(jvp), gradients[i].norm());
    const double error = jvp == dot ? 0 : std::abs(jvp - dot) / scale;
    if (!(error <= worst)) worst = error;
  }
  return worst;
}

// What a derivative may be off by: sums of some hundreds of terms at 1e-16 each.
inline constexpr double kJvpBound = 1e-12;

}  // namespace plumbline

#endif  // PLUMBLINE_TESTS_ORACLE_OPERATOR_CHECK_H_
