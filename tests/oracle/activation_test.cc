#include "oracle/activation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "tests/oracle/operator_check.h"

namespace plumbline {
namespace {

class ActivationTest : public testing::TestWithParam<Activation> {};

// The formulas as the papers print them, not as the oracle computes them.
double Published(Activation kind, double x, double up) {
  switch (kind) {
    case Activation::kGeluTanh:
      return 0.5 * x *
             (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * std::pow(x, 3))));
    case Activation::kGeluErf:
      return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2));
    case Activation::kSquaredRelu:
      return x > 0 ? x * x : 0;
    case Activation::kSwiglu:
      return x / (1 + std::exp(-x)) * up;
  }
  return 0;
}

TEST_P(ActivationTest, ForwardIsThePublishedFormula) {
  const bool gated = GetParam() == Activation::kSwiglu;
  const Matrix<double> x = 2 * RandomMatrix(4, 5, gated ? 12 : 6);
  const Matrix<double> y = ActivationForward(GetParam(), x);
  ASSERT_EQ(y.rows(), 5);
  ASSERT_EQ(y.cols(), 6);
  for (Eigen::Index row = 0; row < 5; ++row) {
    for (Eigen::Index i = 0; i < 6; ++i) {
      const double expected = Published(GetParam(), x(row, i), gated ? x(row, 6 + i) : 0);
      EXPECT_NEAR(y(row, i), expected, 1e-15 * (1 + std::abs(expected)));
    }
  }
}

TEST_P(ActivationTest, BackwardIsTheDerivativeOfForward) {
  const Matrices<double> inputs = {RandomMatrix(5, 7, 8)};
  const auto forward = [&](const auto& in) { return ActivationForward(GetParam(), in[0]); };
  const auto backward = [&](const Matrix<double>& dy, const Matrices<double>& in) {
    return Matrices<double>{ActivationBackward(GetParam(), dy, in[0])};
  };
  EXPECT_LE(WorstJvpError(inputs, forward, backward), kJvpBound);
  // The slope at a place that is 1e-6 away is seen.
  const auto wrong = [&](const Matrix<double>& dy, const Matrices<double>& in) {
    const Matrix<double> moved = (in[0].array() + 1e-6).matrix();
    return Matrices<double>{ActivationBackward(GetParam(), dy, moved)};
  };
  EXPECT_GT(WorstJvpError(inputs, forward, wrong), 1e-9);
}

INSTANTIATE_TEST_SUITE_P(Kinds, ActivationTest,
                         testing::Values(Activation::kGeluTanh, Activation::kGeluErf,
                                         Activation::kSquaredRelu, Activation::kSwiglu),
                         [](const auto& info) { return std::string(Name(info.param)); });

}  // namespace
}  // namespace plumbline
