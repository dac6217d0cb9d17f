#include "oracle/cross_entropy.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/oracle/operator_check.h"

namespace plumbline {
namespace {

const std::vector<int64_t> kTargets = {0, 3, 5, 3};

// -(1 - s) log p_y - s / (V - 1) sum_{j != y} log p_j, as it is written.
double Published(const Matrix<double>& logits, Eigen::Index t, int64_t classes, double smoothing) {
  double z = 0;
  for (int64_t j = 0; j < classes; ++j) z += std::exp(logits(t, j));
  double loss = 0;
  for (int64_t j = 0; j < classes; ++j) {
    const double log_p = logits(t, j) - std::log(z);
    const double weight = j == kTargets[static_cast<size_t>(t)]
                              ? 1 - smoothing
                              : smoothing / static_cast<double>(classes - 1);
    loss -= weight * log_p;
  }
  return loss;
}

class CrossEntropyTest : public testing::TestWithParam<double> {};

TEST_P(CrossEntropyTest, ForwardIsThePublishedFormulaOverTheValidClasses) {
  const Matrix<double> logits = RandomMatrix(1, 4, 9);
  for (int64_t classes : {6, 9}) {
    Matrix<double> p;
    const Matrix<double> loss = CrossEntropyForward(logits, kTargets, classes, GetParam(), p);
    for (Eigen::Index t = 0; t < 4; ++t) {
      EXPECT_NEAR(loss(t, 0), Published(logits, t, classes, GetParam()), 1e-14);
      EXPECT_NEAR(p.row(t).sum(), 1, 1e-15);
      for (Eigen::Index j = classes; j < 9; ++j) EXPECT_EQ(p(t, j), 0);
    }
  }
}

TEST_P(CrossEntropyTest, BackwardIsTheDerivativeOfForward) {
  constexpr int64_t kClasses = 7;
  const auto forward = [&]<class T>(const std::vector<Matrix<T>>& in) {
    Matrix<T> p;
    return CrossEntropyForward(in[0], kTargets, kClasses, GetParam(), p);
  };
  const auto backward = [&](const Matrix<double>& dloss, const Matrices<double>& in) {
    Matrix<double> p;
    CrossEntropyForward(in[0], kTargets, kClasses, GetParam(), p);
    return Matrices<double>{CrossEntropyBackward(dloss, p, kTargets, kClasses, GetParam())};
  };
  const Matrices<double> inputs = {RandomMatrix(2, 4, 9)};
  EXPECT_LE(WorstJvpError(inputs, forward, backward), kJvpBound);
  const auto unsmoothed = [&](const Matrix<double>& dloss, const Matrices<double>& in) {
    Matrix<double> p;
    CrossEntropyForward(in[0], kTargets, kClasses, GetParam(), p);
    return Matrices<double>{CrossEntropyBackward(dloss, p, kTargets, kClasses, GetParam() + 1e-6)};
  };
  EXPECT_GT(WorstJvpError(inputs, forward, unsmoothed), 1e-9);
}

INSTANTIATE_TEST_SUITE_P(Smoothing, CrossEntropyTest, testing::Values(0.0, 0.1),
                         [](const auto& info) {
                           return std::string(info.param == 0 ? "none" : "a_tenth");
                         });

TEST(CrossEntropyTest, UniformLogitsCostTheLogOfTheClasses) {
  Matrix<double> p;
  const Matrix<double> loss =
      CrossEntropyForward<double>(Matrix<double>::Constant(4, 8, 3.0), kTargets, 8, 0.1, p);
  for (Eigen::Index t = 0; t < 4; ++t) EXPECT_NEAR(loss(t, 0), std::log(8.0), 1e-15);
}

TEST(CrossEntropyTest, RefusesTargetsOutsideTheClasses) {
  Matrix<double> p;
  const Matrix<double> logits = RandomMatrix(1, 1, 9);
  EXPECT_THROW(CrossEntropyForward<double>(logits, {6}, 6, 0, p), InvalidArgument);
  EXPECT_THROW(CrossEntropyForward<double>(logits, {-1}, 6, 0, p), InvalidArgument);
}

}  // namespace
}  // namespace plumbline
