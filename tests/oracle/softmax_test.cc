#include "oracle/softmax.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace plumbline {
namespace {

using Scalar = ScalarTraits<double>;

TEST(SoftmaxTest, ByHand) {
  const std::vector<double> scores = {std::log(1.0), std::log(2.0), std::log(5.0)};
  std::vector<double> p(3);
  const double log_sum = Scalar::Log(Softmax(scores.data(), 3, p.data()));
  EXPECT_NEAR(log_sum, std::log(8.0), 1e-15);
  EXPECT_NEAR(p[0], 1.0 / 8, 1e-16);
  EXPECT_NEAR(p[1], 2.0 / 8, 1e-16);
  EXPECT_NEAR(p[2], 5.0 / 8, 1e-16);
}

TEST(SoftmaxTest, WorksInPlaceAndFarFromZero) {
  std::vector<double> scores = {1000, 1000 + std::log(3.0)};
  const double log_sum = Scalar::Log(Softmax(scores.data(), 2, scores.data()));
  EXPECT_NEAR(log_sum, 1000 + std::log(4.0), 1e-12);
  EXPECT_NEAR(scores[0], 0.25, 1e-13);
  EXPECT_NEAR(scores[1], 0.75, 1e-13);
}

TEST(SoftmaxTest, OneScoreHasProbabilityOne) {
  const double score = -3;
  double p = 0;
  EXPECT_EQ(Scalar::Log(Softmax(&score, 1, &p)), -3);
  EXPECT_EQ(p, 1);
}

TEST(SoftmaxTest, NanIsNotLost) {
  std::vector<double> scores = {1, std::nan(""), 2};
  Softmax(scores.data(), 3, scores.data());
  for (double p : scores) EXPECT_TRUE(std::isnan(p));
}

}  // namespace
}  // namespace plumbline
