#include "oracle/adamw.h"

#include <gtest/gtest.h>

#include <cmath>

namespace plumbline {
namespace {

Matrix<double> One(double value) { return Matrix<double>::Constant(1, 1, value); }

// b1 = 0.5, b2 = 0.75, lr = 0.125, wd = 0.5, eps = 0.5; gradients 2, then -2. The betas are binary
// fractions, so that the moments are exact.
TEST(AdamWTest, TwoStepsByHand) {
  AdamWRule rule = {0.125, 0.5, 0.75, 0.5, 0.5, 1};
  Matrix<double> p = One(1), m = One(0), v = One(0);
  AdamWStep(rule, One(2), p, m, v);
  EXPECT_EQ(m(0, 0), 1);
  EXPECT_EQ(v(0, 0), 1);
  // The decayed parameter is 0.9375, the corrected moments are 2 and 4.
  EXPECT_DOUBLE_EQ(p(0, 0), 0.9375 - 0.125 * 2 / 2.5);  // 0.8375

  rule.step = 2;
  AdamWStep(rule, One(-2), p, m, v);
  EXPECT_EQ(m(0, 0), -0.5);
  EXPECT_EQ(v(0, 0), 1.75);
  // Corrections 0.75 and 0.4375: the corrected moments are -2/3 and 4.
  EXPECT_DOUBLE_EQ(p(0, 0), 0.8375 * 0.9375 + 0.125 * (2.0 / 3) / 2.5);
}

TEST(AdamWTest, DecayIsDecoupledFromTheGradient) {
  AdamWRule rule = {0.1, 0.9, 0.99, 1e-8, 0.5, 1};
  Matrix<double> p = One(8), m = One(0), v = One(0);
  AdamWStep(rule, One(0), p, m, v);
  EXPECT_DOUBLE_EQ(p(0, 0), 8 * 0.95);
  EXPECT_EQ(m(0, 0), 0);
  EXPECT_EQ(v(0, 0), 0);
}

// Adam hides a constant factor of the gradient, up to eps: why SGD is tested too.
TEST(AdamWTest, FirstStepIsTheSignOfTheGradient) {
  const AdamWRule rule = {0.1, 0.9, 0.99, 0, 0, 1};
  for (double gradient : {3.0, 1e-3, -7.0}) {
    Matrix<double> p = One(0), m = One(0), v = One(0);
    AdamWStep(rule, One(gradient), p, m, v);
    EXPECT_NEAR(p(0, 0), gradient > 0 ? -0.1 : 0.1, 1e-15);
  }
}

}  // namespace
}  // namespace plumbline
