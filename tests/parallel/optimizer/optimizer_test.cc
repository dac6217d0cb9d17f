#include "parallel/optimizer/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/parallel/tensor/module_world.h"

namespace plumbline {
namespace {

RunConfig OptimizerConfig(OptimizerKind kind) {
  RunConfig config = TensorParallelConfig(1, false);
  config.train.optimizer = kind;
  config.train.lr = 0.5;
  config.train.weight_decay = 0.25;
  config.train.sgd_momentum = 0.5;
  config.train.adam_eps = 0;
  return config;
}

Tensor Scalar(double value) { return Tensor::FromVector<double>(Context{}, {}, {value}); }

TEST(Optimizer, SgdDecaysWeightsOfTwoDimensionsAlone) {
  OnEachRank(OptimizerConfig(OptimizerKind::kSgd), [](const RankEnv& env) {
    Parameter weight = MakeParameter(env, 0, "w", {1, 1}, {});
    Parameter bias = MakeParameter(env, 0, "b", {1}, {});
    weight.value.at<double>({0, 0}) = 8;
    bias.value.at<double>({0}) = 8;
    weight.main_grad.at<double>({0, 0}) = 4;
    bias.main_grad.at<double>({0}) = 4;
    Optimizer optimizer(env, {&weight, &bias});
    optimizer.Step(1, {});
    // 8 - 0.5 (4 + 0.25 * 8) and 8 - 0.5 * 4.
    EXPECT_EQ((weight.value.at<double>({0, 0})), 5);
    EXPECT_EQ(bias.value.at<double>({0}), 6);
    optimizer.Step(2, {});
    // Momentum 0.5 * 4 + 4 = 6.
    EXPECT_EQ(bias.value.at<double>({0}), 3);
  });
}

TEST(Optimizer, TheClipCoefficientScalesTheGradientAndLeavesMainGradAlone) {
  OnEachRank(OptimizerConfig(OptimizerKind::kSgd), [](const RankEnv& env) {
    Parameter bias = MakeParameter(env, 0, "b", {1}, {});
    bias.value.at<double>({0}) = 8;
    bias.main_grad.at<double>({0}) = 4;
    Optimizer(env, {&bias}).Step(1, Scalar(0.25));
    EXPECT_EQ(bias.value.at<double>({0}), 7.5);
    EXPECT_EQ(bias.main_grad.at<double>({0}), 4);
  });
}

TEST(Optimizer, AdamsFirstStepIsLrInTheGradientsDirection) {
  OnEachRank(OptimizerConfig(OptimizerKind::kAdam), [](const RankEnv& env) {
    Parameter bias = MakeParameter(env, 0, "b", {2}, {});
    bias.value = Tensor::FromVector<double>(Context{}, {2}, {1, 1});
    bias.main_grad = Tensor::FromVector<double>(Context{}, {2}, {1e-3, -40});
    Optimizer(env, {&bias}).Step(1, {});
    EXPECT_NEAR(bias.value.at<double>({0}), 0.5, 1e-12);
    EXPECT_NEAR(bias.value.at<double>({1}), 1.5, 1e-12);
  });
}

class Sites : public Probe {
 public:
  void Observe(const Site& site, const ObservedLayout&, const Tensor&) override {
    seen.push_back(ToString(site));
  }
  void ObserveCounter(const Site&, int64_t) override {}
  std::vector<std::string> seen;
};

std::vector<std::string> ShownBy(const RunConfig& config) {
  Sites probe;
  const Mesh mesh(config.parallel);
  const SeededParameters parameters(config.model, 1);
  const Policies policies;
  OnEachRank(config, [&](const RankEnv& env) {
    const RankEnv shown(env.context(), env.comm(), mesh, config, policies, parameters, probe);
    Parameter bias = MakeParameter(shown, -1, "b", {2}, {});
    Optimizer optimizer(shown, {&bias});
    optimizer.Step(1, {});
    optimizer.Show(1);
  });
  return probe.seen;
}

TEST(Optimizer, ShowsTheMomentsThatItHas) {
  RunConfig config = OptimizerConfig(OptimizerKind::kAdam);
  EXPECT_EQ(ShownBy(config),
            (std::vector<std::string>{"step 1 step b parameter", "step 1 step b exp_avg",
                                      "step 1 step b exp_avg_sq"}));
  config = OptimizerConfig(OptimizerKind::kSgd);
  EXPECT_EQ(ShownBy(config),
            (std::vector<std::string>{"step 1 step b parameter", "step 1 step b exp_avg"}));
  config.train.sgd_momentum = 0;
  EXPECT_EQ(ShownBy(config), (std::vector<std::string>{"step 1 step b parameter"}));
}

}  // namespace
}  // namespace plumbline
