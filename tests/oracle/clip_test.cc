#include "oracle/clip.h"

#include <gtest/gtest.h>

#include <cmath>

namespace plumbline {
namespace {

TEST(ClipTest, NormIsOverEveryElementOfEveryTensor) {
  Matrix<double> a = Matrix<double>::Constant(2, 2, 1);
  Matrix<double> b = Matrix<double>::Constant(1, 3, 2);
  EXPECT_EQ(GradientNorm<double>({&a, &b}), 4);
  // All ones: the square of the norm counts the elements.
  b.setOnes();
  EXPECT_DOUBLE_EQ(std::pow(GradientNorm<double>({&a, &b}), 2), 7);
}

TEST(ClipTest, CoefficientIsAtMostOne) {
  EXPECT_DOUBLE_EQ(ClipCoefficient(1.0, 4.0), 1 / 4.000001);
  EXPECT_EQ(ClipCoefficient(1.0, 0.5), 1);
  EXPECT_EQ(ClipCoefficient(1.0, 0.0), 1);
}

TEST(ClipTest, NanStaysNan) {
  EXPECT_TRUE(std::isnan(ClipCoefficient(1.0, std::nan(""))));
  Matrix<double> a = Matrix<double>::Constant(1, 2, std::nan(""));
  EXPECT_TRUE(std::isnan(GradientNorm<double>({&a})));
}

}  // namespace
}  // namespace plumbline
