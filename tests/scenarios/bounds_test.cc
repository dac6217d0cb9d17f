#include "scenarios/bounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

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

// Adam as in the papers, for one tensor that starts at 0.
class AdamParameters {
 public:
  AdamParameters(const TrainConfig& train, size_t elements)
      : train_(train), p_(elements), m_(elements), v_(elements) {}
  void Step(const std::vector<double>& gradient) {
    ++step_;
    for (size_t i = 0; i < p_.size(); ++i) {
      m_[i] = train_.adam_beta1 * m_[i] + (1 - train_.adam_beta1) * gradient[i];
      v_[i] = train_.adam_beta2 * v_[i] + (1 - train_.adam_beta2) * gradient[i] * gradient[i];
      const double mhat = m_[i] / (1 - std::pow(train_.adam_beta1, step_));
      const double vhat = v_[i] / (1 - std::pow(train_.adam_beta2, step_));
      p_[i] -= train_.lr * mhat / (std::sqrt(vhat) + train_.adam_eps);
    }
  }
  const std::vector<double>& values() const { return p_; }

 private:
  TrainConfig train_;
  int step_ = 0;
  std::vector<double> p_;
  std::vector<double> m_;
  std::vector<double> v_;
};

TEST(BoundsTest, F64BoundIsTheDesigns) { EXPECT_EQ(DeviationBound(DType::kF64), 1e-11); }

TEST(BoundsTest, F32BoundIsAsManyUnitsOfRounding) {
  EXPECT_DOUBLE_EQ(DeviationBound(DType::kF32), 1e-11 * 0x1p29);
}

// What is left of DESIGN's term once sqrt(v) is 0: steps lr 1e-15 G / eps.
TEST(BoundsTest, WhereTheGradientIsZeroItsRoundingIsDividedByEps) {
  AdamExemptionRule rule(Adam());
  for (int step = 1; step <= 3; ++step) {
    rule.AddGradient("w", Gradient({2.0, 0.0}));
    const AdamExemption exemption = rule.AfterUpdate("w");
    EXPECT_FLOAT_EQ(exemption.ExtraAt(1, DType::kF64), step * 0.01 * 1e-15 * 2.0 / 1e-8);
    EXPECT_EQ(exemption.ExtraAt(1, DType::kF32), 0x1p29 * exemption.ExtraAt(1, DType::kF64));
  }
}

// Alike gradients: mhat and sqrt(vhat) are the gradient itself.
TEST(BoundsTest, ExtraIsWhatTheRoundingOfMeanAndRootDoesToTheUpdate) {
  AdamExemptionRule rule(Adam());
  for (int step = 1; step <= 4; ++step) {
    rule.AddGradient("w", Gradient({2.0, -1e-8, 1e-3}));
    const AdamExemption exemption = rule.AfterUpdate("w");
    const double unit = step * 0.01 * 2e-15;
    EXPECT_FLOAT_EQ(exemption.ExtraAt(0, DType::kF64), unit);
    // eps is as large as sqrt(vhat): (1 + 1/2) / 2e-8.
    EXPECT_FLOAT_EQ(exemption.ExtraAt(1, DType::kF64), unit * 0.75e8);
    EXPECT_NEAR(exemption.ExtraAt(2, DType::kF64), unit * 2e3, unit * 2e3 * 2e-5);
  }
}

// The shift that gradients off by a little really cause lies below the extra, and within a few
// times of it when all signs are the worst ones.
TEST(BoundsTest, ExtraCoversTheUpdatesOfRoundedGradients) {
  const TrainConfig train = Adam();
  const std::vector<double> gradients = {1.0, 1e-3, -1e-6, 1e-8, 1e-9, -1e-11, 1e-14, 0.0};
  const auto parameters = [&](double rounding, unsigned signs) {
    AdamParameters adam(train, gradients.size());
    for (int step = 1; step <= 3; ++step) {
      std::vector<double> rounded = gradients;
      for (double& g : rounded) {
        g *= 1 - 0.4 * step;  // 0.6, 0.2, -0.2
        g += (signs >> step & 1U) != 0 ? rounding : -rounding;
      }
      adam.Step(rounded);
    }
    return adam.values();
  };
  AdamExemptionRule rule(train);
  AdamExemption exemption;
  for (int step = 1; step <= 3; ++step) {
    std::vector<double> whole = gradients;
    for (double& g : whole) g *= 1 - 0.4 * step;
    rule.AddGradient("w", Gradient(whole));
    exemption = rule.AfterUpdate("w");
  }
  // A rounding of 1e-15 drowns in that of the update itself; what is of first order scales.
  constexpr double kMagnified = 1e4;
  const std::vector<double> exact = parameters(0, 0);
  for (size_t i = 0; i < gradients.size(); ++i) {
    double worst = 0;
    for (unsigned signs = 0; signs < 16; ++signs) {
      worst = std::max(worst, std::abs(parameters(0.2 * 1e-15 * kMagnified, signs)[i] - exact[i]));
    }
    const double extra = kMagnified * exemption.ExtraAt(static_cast<int64_t>(i), DType::kF64);
    EXPECT_LE(worst, 1.001 * extra + 1e-16) << gradients[i];
    EXPECT_GE(worst, 0.1 * extra) << gradients[i];
  }
}

TEST(BoundsTest, ExtraFollowsTheClippedGradient) {
  AdamExemptionRule rule(Adam());
  AdamExemptionRule clipped(Adam());
  clipped.SetClipCoefficient(0.25);
  rule.AddGradient("w", Gradient({0.25, 0.25e-7}));
  clipped.AddGradient("w", Gradient({1.0, 1e-7}));
  EXPECT_FLOAT_EQ(rule.AfterUpdate("w").ExtraAt(1, DType::kF64),
                  clipped.AfterUpdate("w").ExtraAt(1, DType::kF64));
}

// What the bound is meant to find stays found: for the defaults, whose weights are of the size of
// 0.1, an element is exempt from nothing when its gradient is above 1e-4 of the largest.
TEST(BoundsTest, OrdinaryElementsAreNotExempt) {
  AdamExemptionRule rule(Adam());
  AdamExemption exemption;
  for (int step = 1; step <= 3; ++step) {
    rule.AddGradient("w", Gradient({1.0, 1e-4}));
    exemption = rule.AfterUpdate("w");
  }
  EXPECT_LT(exemption.ExtraAt(1, DType::kF64), 1e-11 * 0.1);
}

TEST(BoundsTest, AnExemptionTakenEarlierDoesNotChange) {
  AdamExemptionRule rule(Adam());
  rule.AddGradient("w", Gradient({1.0, 0.0}));
  const AdamExemption first = rule.AfterUpdate("w");
  const double extra = first.ExtraAt(1, DType::kF64);
  rule.AddGradient("w", Gradient({1.0, 0.0}));
  EXPECT_GT(rule.AfterUpdate("w").ExtraAt(1, DType::kF64), extra);
  EXPECT_EQ(first.ExtraAt(1, DType::kF64), extra);
}

// Two groups of one query head, one key, one value, each of two channels.
TEST(BoundsTest, AKeyBiasPassesItsExtraOnToTheActivationsItIsPartOf) {
  const std::string attention = "decoder.layers.3.self_attention.";
  AdamExemptionRule rule(Adam());
  EXPECT_EQ(rule.OfActivation(attention + "key", {5, 1, 2, 2}).ExtraAt(0, DType::kF64), 0);
  rule.AddGradient(attention + "linear_qkv.bias",
                   Gradient({1, 1, 1e-9, 2e-9, 1, 1, 1, 1, 3e-9, 4e-9, 1, 1}));
  const AdamExemption bias = rule.AfterUpdate(attention + "linear_qkv.bias");
  const AdamExemption qkv = rule.OfActivation(attention + "linear_qkv", {5, 1, 12});
  const AdamExemption key = rule.OfActivation(attention + "key", {5, 1, 2, 2});
  for (const int64_t position : {0, 4}) {
    for (int64_t row = 0; row < 12; ++row) {
      EXPECT_EQ(qkv.ExtraAt(position * 12 + row, DType::kF64), bias.ExtraAt(row, DType::kF64));
    }
    const std::vector<int64_t> rows = {2, 3, 8, 9};
    for (int64_t i = 0; i < 4; ++i) {
      EXPECT_EQ(key.ExtraAt(position * 4 + i, DType::kF64),
                bias.ExtraAt(rows[static_cast<size_t>(i)], DType::kF64));
    }
  }
  for (const char* other : {"query", "core_attention", "linear_proj"}) {
    EXPECT_EQ(rule.OfActivation(attention + other, {5, 1, 2, 2}).extra, nullptr);
  }
  EXPECT_EQ(rule.OfActivation("decoder.layers.4.self_attention.key", {5, 1, 2, 2}).extra, nullptr);
}

TEST(BoundsTest, SgdAndUnknownParametersAreNotExempt) {
  TrainConfig sgd = Adam();
  sgd.optimizer = OptimizerKind::kSgd;
  AdamExemptionRule rule(sgd);
  rule.AddGradient("w", Gradient({1.0, 0.0}));
  EXPECT_EQ(rule.AfterUpdate("w").ExtraAt(1, DType::kF64), 0);
  EXPECT_EQ(AdamExemptionRule(Adam()).AfterUpdate("w").ExtraAt(0, DType::kF64), 0);
}

// A gradient that is zero as a whole has no scale: none of it was rounded.
TEST(BoundsTest, ZeroGradientGivesNoSlack) {
  AdamExemptionRule rule(Adam());
  rule.AddGradient("w", Gradient({0.0, 0.0}));
  EXPECT_EQ(rule.AfterUpdate("w").ExtraAt(0, DType::kF64), 0);
}

TEST(BoundsTest, AnUpdateWithoutAGradientIsRefused) {
  AdamExemptionRule rule(Adam());
  rule.AddGradient("w", Gradient({1.0, 0.0}));
  rule.AfterUpdate("w");
  EXPECT_THROW(rule.AfterUpdate("w"), Internal);
}

}  // namespace
}  // namespace plumbline
