#include "oracle/sgd.h"

#include <gtest/gtest.h>

namespace plumbline {
namespace {

Matrix<double> One(double value) { return Matrix<double>::Constant(1, 1, value); }

// mu = 0.5, lr = 0.25, wd = 0.125: every number is a binary fraction.
TEST(SgdTest, ThreeStepsWithMomentumByHand) {
  SgdRule rule = {0.25, 0.5, 0.125, 1};
  Matrix<double> p = One(8), buffer = One(0);
  SgdStep(rule, One(1), p, buffer);  // direction 1 + 1
  EXPECT_EQ(buffer(0, 0), 2);
  EXPECT_EQ(p(0, 0), 7.5);
  rule.step = 2;
  SgdStep(rule, One(-1), p, buffer);  // -1 + 0.9375 + 0.5 * 2
  EXPECT_EQ(buffer(0, 0), 0.9375);
  EXPECT_EQ(p(0, 0), 7.265625);
  rule.step = 3;
  SgdStep(rule, One(0), p, buffer);  // 0.908203125 + 0.46875
  EXPECT_EQ(buffer(0, 0), 1.376953125);
  EXPECT_EQ(p(0, 0), 7.265625 - 0.25 * 1.376953125);
}

TEST(SgdTest, FirstStepIgnoresTheBuffer) {
  Matrix<double> p = One(1), buffer = One(1000);
  SgdStep({0.5, 0.5, 0, 1}, One(1), p, buffer);
  EXPECT_EQ(buffer(0, 0), 1);
  EXPECT_EQ(p(0, 0), 0.5);
}

TEST(SgdTest, WithoutMomentumThereIsNoBuffer) {
  Matrix<double> p = One(8), buffer = One(77);
  SgdStep({0.25, 0, 0.125, 2}, One(1), p, buffer);
  EXPECT_EQ(buffer(0, 0), 77);
  EXPECT_EQ(p(0, 0), 7.5);
}

}  // namespace
}  // namespace plumbline
