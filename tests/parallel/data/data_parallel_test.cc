#include "parallel/data/data_parallel.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/parallel/tensor/module_world.h"

namespace plumbline {
namespace {

// Each rank's gradient is its global rank plus one; what each has after the reduction, by rank.
std::vector<double> Reduced(int tp, int dp, bool per_token,
                            const Policies& policies = DefaultPolicies()) {
  RunConfig config = TensorParallelConfig(tp, false);
  config.parallel.dp = dp;
  config.train.calculate_per_token_loss = per_token;
  config.train.global_batch_size = 2 * dp;
  std::vector<double> result(static_cast<size_t>(tp * dp));
  OnEachRank(
      config,
      [&](const RankEnv& env) {
        Parameter parameter = MakeParameter(env, 0, "w", {1}, {});
        const double own = env.global_rank() + 1;
        parameter.AddGradient(env, Pass{}, Tensor::FromVector<double>(Context{}, {1}, {own}));
        Parameter* const parameters[] = {&parameter};
        ReduceOverDataParallel(env, 1, parameters);
        result[env.global_rank()] = parameter.main_grad.at<double>({0});
      },
      policies);
  return result;
}

TEST(DataParallel, DefaultAverages) {
  // tp is fastest: data-parallel groups are {0, 2} and {1, 3}.
  EXPECT_EQ(Reduced(2, 2, false), (std::vector<double>{2, 3, 2, 3}));
}

TEST(DataParallel, PerTokenLossSums) {
  EXPECT_EQ(Reduced(2, 2, true), (std::vector<double>{4, 6, 4, 6}));
}

TEST(DataParallel, OneRankKeepsItsGradient) {
  EXPECT_EQ(Reduced(2, 1, false), (std::vector<double>{1, 2}));
}

TEST(DataParallel, ThePolicyNamesOpAndGroup) {
  Policies sum;
  sum.data_parallel.reduce_op_per_microbatch = ReduceOp::kSum;
  EXPECT_EQ(Reduced(1, 3, false, sum), (std::vector<double>{6, 6, 6}));
  Policies over_tp;
  over_tp.data_parallel.group_axes = "tp";
  EXPECT_EQ(Reduced(2, 2, false, over_tp), (std::vector<double>{1.5, 1.5, 3.5, 3.5}));
}

}  // namespace
}  // namespace plumbline
