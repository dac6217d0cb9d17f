#include "scenarios/bounds.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace plumbline {
namespace {

TrainConfig Adam() {
  TrainConfig train;
  train.optimizer = OptimizerKind::kAdam;
  train.lr = 0.01;
  train.adam_eps = 1e-8;
  return train;
}

Tensor Gradient(const std::vector<double>& values) {
  return Tensor::FromVector(Context{}, {static_cast<int64_t>(values.size())}, values);
}

TEST(BoundsTest, F64BoundIsTheDesigns) { EXPECT_EQ(DeviationBound(DType::kF64), 1e-11); }

TEST(BoundsTest, F32BoundIsAsManyUnitsOfRounding) {
  EXPECT_DOUBLE_EQ(DeviationBound(DType::kF32), 1e-11 * 0x1p29);
}

TEST(BoundsTest, OnlyElementsBelowTheThresholdAreExempt) {
  AdamExemptionRule rule(Adam());
  rule.AddGradient("w", Gradient({2.0, -1.9e-12, 2.1e-12, 0.0}));
  const AdamExemption exemption = rule.Of("w");
  EXPECT_EQ(exemption.ExtraAt(0, DType::kF64), 0);
  EXPECT_DOUBLE_EQ(exemption.ExtraAt(1, DType::kF64), 0.01 * 1e-15 * 2.0 / 1e-8);
  EXPECT_EQ(exemption.ExtraAt(2, DType::kF64), 0);
  EXPECT_GT(exemption.ExtraAt(3, DType::kF64), 0);
}

TEST(BoundsTest, ExtraGrowsWithStepsAndEndsWithTheFirstRealGradient) {
  AdamExemptionRule rule(Adam());
  rule.AddGradient("w", Gradient({1.0, 0.0, 0.0}));
  rule.AddGradient("w", Gradient({3.0, 0.0, 1.0}));
  const AdamExemption exemption = rule.Of("w");
  EXPECT_DOUBLE_EQ(exemption.ExtraAt(1, DType::kF64), 0.01 * 1e-15 * 4.0 / 1e-8);
  EXPECT_EQ(exemption.ExtraAt(2, DType::kF64), 0);
}

TEST(BoundsTest, AnExemptionTakenEarlierDoesNotChange) {
  AdamExemptionRule rule(Adam());
  rule.AddGradient("w", Gradient({1.0, 0.0}));
  const AdamExemption first = rule.Of("w");
  rule.AddGradient("w", Gradient({1.0, 1.0}));
  EXPECT_GT(first.ExtraAt(1, DType::kF64), 0);
  EXPECT_EQ(rule.Of("w").ExtraAt(1, DType::kF64), 0);
}

TEST(BoundsTest, SgdAndUnknownParametersAreNotExempt) {
  TrainConfig sgd = Adam();
  sgd.optimizer = OptimizerKind::kSgd;
  AdamExemptionRule rule(sgd);
  rule.AddGradient("w", Gradient({1.0, 0.0}));
  EXPECT_EQ(rule.Of("w").ExtraAt(1, DType::kF64), 0);
  EXPECT_EQ(AdamExemptionRule(Adam()).Of("w").ExtraAt(0, DType::kF64), 0);
}

TEST(BoundsTest, ZeroGradientGivesNoSlack) {
  AdamExemptionRule rule(Adam());
  rule.AddGradient("w", Gradient({0.0, 0.0}));
  EXPECT_EQ(rule.Of("w").ExtraAt(0, DType::kF64), 0);
}

}  // namespace
}  // namespace plumbline
