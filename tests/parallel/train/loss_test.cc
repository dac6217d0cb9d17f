#include "parallel/train/loss.h"

#include <gtest/gtest.h>

#include "tests/parallel/tensor/module_world.h"

namespace plumbline {
namespace {

// S = 2, B = 2 and two microbatches a rank.
RunConfig LossConfig(int dp, bool per_token) {
  RunConfig config = TensorParallelConfig(1, false);
  config.model.seq_length = 2;
  config.train.micro_batch_size = 2;
  config.train.global_batch_size = 4 * dp;
  config.train.calculate_per_token_loss = per_token;
  config.parallel.dp = dp;
  return config;
}

Microbatch MaskedMicrobatch(const std::vector<double>& mask) {
  Microbatch microbatch;
  microbatch.loss_mask = Tensor::FromVector<double>(Context{}, {4}, mask);
  for (double keep : mask) microbatch.label_count += keep != 0 ? 1 : 0;
  return microbatch;
}

TEST(Loss, DefaultDividesByTheMicrobatchsOwnLabels) {
  const RunConfig config = LossConfig(1, false);
  OnEachRank(config, [](const RankEnv& env) {
    const Microbatch microbatch = MaskedMicrobatch({1, 0, 1, 1});
    const Tensor losses = Tensor::FromVector<double>(Context{}, {2, 2}, {3, 100, 6, 9});
    EXPECT_EQ(MicrobatchLoss(env, microbatch, losses).at<double>({}), 6);
    // Two microbatches, three labels.
    EXPECT_EQ(MicrobatchLossGradient(env, microbatch).ToVector<double>(),
              (std::vector<double>{0.5 / 3, 0, 0.5 / 3, 0.5 / 3}));
  });
}

TEST(Loss, PerTokenLeavesTheDivisionToFinalize) {
  OnEachRank(LossConfig(1, true), [](const RankEnv& env) {
    const Microbatch microbatch = MaskedMicrobatch({1, 0, 1, 1});
    const Tensor losses = Tensor::FromVector<double>(Context{}, {2, 2}, {3, 100, 6, 9});
    EXPECT_EQ(MicrobatchLoss(env, microbatch, losses).at<double>({}), 18);
    EXPECT_EQ(MicrobatchLossGradient(env, microbatch).ToVector<double>(),
              (std::vector<double>{1, 0, 1, 1}));
  });
}

TEST(Loss, AMicrobatchWithoutLabelsHasNoLossAndNoGradient) {
  OnEachRank(LossConfig(1, false), [](const RankEnv& env) {
    const Microbatch microbatch = MaskedMicrobatch({0, 0, 0, 0});
    const Tensor losses = Tensor::FromVector<double>(Context{}, {2, 2}, {3, 100, 6, 9});
    EXPECT_EQ(MicrobatchLoss(env, microbatch, losses).at<double>({}), 0);
    EXPECT_EQ(MicrobatchLossGradient(env, microbatch).ToVector<double>(),
              std::vector<double>(4, 0.0));
  });
}

TEST(Loss, ReportedByDefaultIsTheMeanOverAllMicrobatches) {
  OnEachRank(LossConfig(4, false), [](const RankEnv& env) {
    const Tensor sum =
        Tensor::FromVector<double>(env.context(), {}, {2.0 * (1 + env.global_rank())});
    // Ranks' means are 1, 2, 3, 4.
    EXPECT_EQ(ReportedLoss(env, 1, sum, {}).at<double>({}), 2.5);
  });
}

TEST(Loss, ReportedPerTokenIsTheSumOverAllLabels) {
  OnEachRank(LossConfig(4, true), [](const RankEnv& env) {
    const double rank = env.global_rank();
    const Tensor count =
        GlobalLabelCount(env, 1, Tensor::FromVector<double>(env.context(), {}, {1 + rank}));
    EXPECT_EQ(count.at<double>({}), 10);
    const Tensor sum = Tensor::FromVector<double>(env.context(), {}, {10 * rank});
    EXPECT_EQ(ReportedLoss(env, 1, sum, count).at<double>({}), 6);
  });
}

}  // namespace
}  // namespace plumbline
