// The bounds hold for any gradients within theirs, and are not much wider than needed.
#include "scenarios/update_bounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/rng.h"

namespace plumbline {
namespace {

constexpr size_t kElements = 400;

// One optimizer in double, written out.
struct Plain {
  TrainConfig train;
  std::vector<double> weight = std::vector<double>(kElements, 0.5);
  std::vector<double> mean = std::vector<double>(kElements, 0);
  std::vector<double> square = std::vector<double>(kElements, 0);
  int step = 0;

  void Update(const std::vector<double>& gradient, double clip) {
    ++step;
    for (size_t i = 0; i < kElements; ++i) {
      const double g = clip * gradient[i];
      if (train.optimizer == OptimizerKind::kSgd) {
        mean[i] =
            (step == 1 ? 0 : train.sgd_momentum * mean[i]) + g + train.weight_decay * weight[i];
        weight[i] -= train.lr * mean[i];
        continue;
      }
      mean[i] = train.adam_beta1 * mean[i] + (1 - train.adam_beta1) * g;
      square[i] = train.adam_beta2 * square[i] + (1 - train.adam_beta2) * g * g;
      const double m = mean[i] / (1 - std::pow(train.adam_beta1, step));
      const double v = square[i] / (1 - std::pow(train.adam_beta2, step));
      weight[i] -= train.lr * train.weight_decay * weight[i];
      weight[i] -= train.lr * m / (std::sqrt(v) + train.adam_eps);
    }
  }
};

// Of all sizes: most are smaller than what they may be off by.
std::vector<double> Gradient(int step) {
  const RandomStream stream = DataStream(static_cast<uint64_t>(step), "gradient");
  std::vector<double> gradient(kElements);
  for (size_t i = 0; i < kElements; ++i) {
    gradient[i] = stream.Normal(i) * std::pow(10.0, -6 * stream.Uniform(1000 + i));
  }
  return gradient;
}

double Largest(const std::vector<double>& values) {
  double largest = 0;
  for (double x : values) largest = std::max(largest, std::abs(x));
  return largest;
}

struct Share {
  double weight = 0;  // of what elements may be off by, the most that one is
  double mean = 0;
  double square = 0;
};

// A reference and a program whose gradients are moved by `move` times their bound, in [-1, 1].
Share WorstShares(const TrainConfig& train, double bound, double clip_bound, int steps,
                  const std::function<double(int step, size_t i)>& move) {
  UpdateBounds bounds(train);
  Plain reference{train};
  Plain program{train};
  Share share;
  for (int step = 1; step <= steps; ++step) {
    const std::vector<double> gradient = Gradient(step);
    const double clip = 1.0 / step;
    std::vector<double> moved = gradient;
    for (size_t i = 0; i < kElements; ++i) moved[i] += move(step, i) * bound * Largest(gradient);
    reference.Update(gradient, clip);
    program.Update(moved, clip * (1 + clip_bound * move(step, kElements)));
    bounds.AddGradient("w", Tensor::FromVector<double>(Context{}, {kElements}, gradient), bound);
    bounds.SetClipCoefficient(clip, clip_bound);
    const auto most = [&](Quantity quantity, const std::vector<double>& a,
                          const std::vector<double>& b, double& worst) {
      const auto allowed = bounds.Of("w", quantity);
      for (size_t i = 0; i < kElements; ++i) {
        worst =
            std::max(worst, std::abs(a[i] - b[i]) / (static_cast<double>((*allowed)[i]) + 1e-15));
      }
    };
    most(Quantity::kMainParam, program.weight, reference.weight, share.weight);
    most(Quantity::kExpAvg, program.mean, reference.mean, share.mean);
    if (train.optimizer == OptimizerKind::kAdam) {
      most(Quantity::kExpAvgSq, program.square, reference.square, share.square);
    }
  }
  return share;
}

TrainConfig Train(OptimizerKind kind) {
  TrainConfig train;
  train.optimizer = kind;
  train.lr = 1e-2;
  return train;
}

constexpr double kRoundedUp = 1 + 1e-6;  // bounds are kept in f32

TEST(UpdateBoundsTest, HoldForGradientsWithinTheirBounds) {
  for (OptimizerKind kind : {OptimizerKind::kAdam, OptimizerKind::kSgd}) {
    for (double bound : {1e-6, 1e-3, 0.1}) {
      for (uint64_t seed = 0; seed < 20; ++seed) {
        const RandomStream stream = DataStream(seed, "moves");
        const auto any = [&](int step, size_t i) {
          return 2 * stream.Uniform(static_cast<uint64_t>(step) * 1000 + i) - 1;
        };
        const auto extreme = [&](int step, size_t i) { return any(step, i) > 0 ? 1.0 : -1.0; };
        for (const std::function<double(int, size_t)>& move :
             {std::function<double(int, size_t)>(any), {extreme}}) {
          const Share share = WorstShares(Train(kind), bound, bound / 2, 5, move);
          EXPECT_LE(share.weight, kRoundedUp) << bound;
          EXPECT_LE(share.mean, kRoundedUp) << bound;
          EXPECT_LE(share.square, kRoundedUp) << bound;
        }
      }
    }
  }
}

TEST(UpdateBoundsTest, AreReachedByTheWorstGradients) {
  const auto up = [](int, size_t) { return 1.0; };
  for (OptimizerKind kind : {OptimizerKind::kAdam, OptimizerKind::kSgd}) {
    const Share share = WorstShares(Train(kind), 1e-3, 0, 1, up);
    EXPECT_GT(share.weight, 0.95);
    EXPECT_GT(share.mean, 0.999);
    if (kind == OptimizerKind::kAdam) {
      EXPECT_GT(share.square, 0.999);
    }
  }
}

// Adam's first step goes by signs: there the moments tell.
TEST(UpdateBoundsTest, GradientsBeyondTheirBoundsAreBeyondThese) {
  const auto far = [](int step, size_t) { return step == 1 ? 2.0 : 0.0; };
  for (OptimizerKind kind : {OptimizerKind::kAdam, OptimizerKind::kSgd}) {
    const Share share = WorstShares(Train(kind), 1e-3, 0, 3, far);
    EXPECT_GT(share.mean, 1.9);
    const bool adam = kind == OptimizerKind::kAdam;
    EXPECT_GT(adam ? share.square : share.weight, 1.5);
  }
}

// A tiny gradient may change its sign, and the weight then goes lr the other way; a large one is
// hardly moved.
TEST(UpdateBoundsTest, FirstAdamStepGoesEitherWayOnlyWhereTheGradientIsTiny) {
  UpdateBounds bounds(Train(OptimizerKind::kAdam));
  bounds.AddGradient("w", Tensor::FromVector<double>(Context{}, {3}, {1, 1e-5, 0.1}), 1e-3);
  const auto weight = bounds.Of("w", Quantity::kParameter);
  EXPECT_NEAR((*weight)[0], 2e-5, 1e-6);  // lr 2 d / |g|
  EXPECT_NEAR((*weight)[1], 2e-2, 1e-4);  // 2 lr
  EXPECT_NEAR((*weight)[2], 2e-4, 1e-5);
  const auto mean = bounds.Of("w", Quantity::kExpAvg);
  for (float error : *mean) EXPECT_NEAR(error, 1e-4, 1e-9);
}

TEST(UpdateBoundsTest, ParameterWithoutAGradientHasNone) {
  UpdateBounds bounds(Train(OptimizerKind::kAdam));
  EXPECT_EQ(bounds.Of("w", Quantity::kParameter), nullptr);
}

// |mean| / root of the mean square, for random gradients and for the worst ones: a_i / b_i.
TEST(LargestAdamRatioTest, IsReachedAndNeverExceeded) {
  for (const auto& [beta1, beta2] : {std::pair(0.9, 0.999), {0.9, 0.95}, {0.5, 0.99}}) {
    for (int64_t steps : {1, 2, 5, 30}) {
      const double ratio = LargestAdamRatio(beta1, beta2, steps);
      if (steps == 1) {
        EXPECT_DOUBLE_EQ(ratio, 1);
      }
      const auto of = [&](const std::function<double(int64_t)>& gradient) {
        double mean = 0;
        double square = 0;
        for (int64_t i = 0; i < steps; ++i) {
          mean = beta1 * mean + (1 - beta1) * gradient(i);
          square = beta2 * square + (1 - beta2) * gradient(i) * gradient(i);
        }
        const double n = static_cast<double>(steps);
        return std::abs(mean / (1 - std::pow(beta1, n))) /
               std::sqrt(square / (1 - std::pow(beta2, n)));
      };
      const auto worst = [&](int64_t i) {
        return std::pow(beta1 / beta2, static_cast<double>(steps - 1 - i));
      };
      EXPECT_NEAR(of(worst), ratio, 1e-12 * ratio);
      for (uint64_t seed = 0; seed < 100; ++seed) {
        const RandomStream stream = DataStream(seed, "ratios");
        const auto any = [&](int64_t i) { return stream.Normal(static_cast<uint64_t>(i)); };
        EXPECT_LE(of(any), ratio * (1 + 1e-12));
      }
    }
  }
}

}  // namespace
}  // namespace plumbline
