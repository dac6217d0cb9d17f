#include "oracle/loss.h"

#include <gtest/gtest.h>

namespace plumbline {
namespace {

Matrix<double> Column(const std::vector<double>& values) {
  return Eigen::Map<const Matrix<double>>(values.data(), static_cast<Eigen::Index>(values.size()),
                                          1);
}

const LabelMask kFirst = {true, false, true, true};
const LabelMask kSecond = {false, false, true, false};
const Matrix<double> kFirstLoss = Column({1, 100, 2, 6});
const Matrix<double> kSecondLoss = Column({100, 100, 7, 100});

TEST(LossTest, DefaultIsTheMeanOfTheMicrobatchMeans) {
  const LossNormalization rule = {false, 2, 4};
  const double first = MicrobatchLoss(rule, kFirstLoss, kFirst);
  const double second = MicrobatchLoss(rule, kSecondLoss, kSecond);
  EXPECT_EQ(first, 3);
  EXPECT_EQ(second, 7);
  EXPECT_EQ(StepLoss(rule, first + second), 5);
  EXPECT_EQ(TokenLossGradient<double>(rule, kFirst), Column({1.0 / 6, 0, 1.0 / 6, 1.0 / 6}));
  EXPECT_EQ(TokenLossGradient<double>(rule, kSecond), Column({0, 0, 0.5, 0}));
}

TEST(LossTest, PerTokenIsTheSumOverTheLabelsOfTheStep) {
  const LossNormalization rule = {true, 2, 4};
  const double first = MicrobatchLoss(rule, kFirstLoss, kFirst);
  const double second = MicrobatchLoss(rule, kSecondLoss, kSecond);
  EXPECT_EQ(first, 9);
  EXPECT_EQ(second, 7);
  EXPECT_EQ(StepLoss(rule, first + second), 4);
  EXPECT_EQ(TokenLossGradient<double>(rule, kFirst), Column({0.25, 0, 0.25, 0.25}));
  EXPECT_EQ(TokenLossGradient<double>(rule, kSecond), Column({0, 0, 0.25, 0}));
}

TEST(LossTest, NoLabelsGiveNoLossAndNoGradient) {
  const LabelMask none = {false, false, false, false};
  for (bool per_token : {false, true}) {
    const LossNormalization rule = {per_token, 1, 0};
    EXPECT_EQ(StepLoss(rule, MicrobatchLoss(rule, kFirstLoss, none)), 0);
    EXPECT_EQ(TokenLossGradient<double>(rule, none), Column({0, 0, 0, 0}));
  }
}

TEST(LossTest, GradientIsTheDerivativeOfTheStepLoss) {
  for (bool per_token : {false, true}) {
    const LossNormalization rule = {per_token, 2, 4};
    const auto step_loss = [&](const Matrix<double>& first) {
      return StepLoss(
          rule, MicrobatchLoss(rule, first, kFirst) + MicrobatchLoss(rule, kSecondLoss, kSecond));
    };
    const Matrix<double> gradient = TokenLossGradient<double>(rule, kFirst);
    for (Eigen::Index t = 0; t < 4; ++t) {
      Matrix<double> moved = kFirstLoss;
      moved(t, 0) += 1;  // the loss is linear
      EXPECT_NEAR(step_loss(moved) - step_loss(kFirstLoss), gradient(t, 0), 1e-15);
    }
  }
}

}  // namespace
}  // namespace plumbline
