#include "cli/measure_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "base/error.h"
#include "base/mesh.h"
#include "cli/stage_memory.h"

namespace plumbline {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

RunConfig Config(DType dtype, ShardingStrategy strategy, int dp, int pp) {
  RunConfig config;
  config.model.vocab_size = 61;
  config.model.padded_vocab_size = 61;
  config.dtype = dtype;
  config.parallel.dp = dp;
  config.parallel.pp = pp;
  config.train.micro_batch_size = 1;
  config.train.global_batch_size = 2 * dp;
  config.parallel.data.gradient_buffers = true;
  config.parallel.data.sharding_strategy = strategy;
  config.parallel.data.grads_in_param_dtype = dtype == DType::kF16;
  return config;
}

struct Bytes {
  int64_t weights = 0;
  int64_t gradients = 0;
  int64_t optimizer = 0;

  bool operator==(const Bytes&) const = default;
};

Bytes ByLayout(const RunConfig& config, int stage, int shard) {
  Bytes bytes;
  for (const StateMemory& memory : StageMemory(config, StageBuffersOf(config, stage), shard)) {
    const MemoryState state = memory.per_parameter.state;
    int64_t& sum = state == MemoryState::kWeights     ? bytes.weights
                   : state == MemoryState::kMainGrads ? bytes.gradients
                                                      : bytes.optimizer;
    sum += memory.layout;
  }
  return bytes;
}

using Case = std::tuple<DType, ShardingStrategy, int, int>;

class MeasureMemoryTest : public testing::TestWithParam<Case> {};

TEST_P(MeasureMemoryTest, RanksHoldWhatTheLayoutSaysToTheByte) {
  const auto [dtype, strategy, dp, pp] = GetParam();
  const RunConfig config = Config(dtype, strategy, dp, pp);
  const Mesh mesh(config.parallel);
  const std::vector<RankMemory> memory = MeasureMemory(config);
  ASSERT_EQ(memory.size(), static_cast<size_t>(mesh.world_size()));
  for (int rank = 0; rank < mesh.world_size(); ++rank) {
    const RankMemory& measured = memory[static_cast<size_t>(rank)];
    const Bytes held = {measured.Held(MemoryCategory::kParameter),
                        measured.Held(MemoryCategory::kGradient),
                        measured.Held(MemoryCategory::kOptimizer)};
    const bool sharded = config.parallel.data.use_distributed_optimizer();
    const int shard = sharded ? mesh.CoordinateOf(rank, "dp") : 0;
    EXPECT_EQ(held, ByLayout(config, mesh.CoordinateOf(rank, "pp"), shard)) << "rank " << rank;
  }
}

std::string CaseName(const testing::TestParamInfo<Case>& info) {
  const auto [dtype, strategy, dp, pp] = info.param;
  return std::string(Name(dtype)) + "_" + std::string(Name(strategy)) + "_dp" + std::to_string(dp) +
         "_pp" + std::to_string(pp);
}

INSTANTIATE_TEST_SUITE_P(Sweep, MeasureMemoryTest,
                         testing::Combine(testing::Values(DType::kF32, DType::kBF16, DType::kF16),
                                          testing::Values(ShardingStrategy::kNoShard,
                                                          ShardingStrategy::kOptim,
                                                          ShardingStrategy::kOptimGrads,
                                                          ShardingStrategy::kOptimGradsParams),
                                          testing::Values(1, 2, 3), testing::Values(1, 2)),
                         CaseName);

TEST(MeasureMemoryOnceTest, GatheredWeightsShowAtTheirPeak) {
  const auto gathered = [](ShardingStrategy strategy) {
    return MeasureMemory(Config(DType::kF32, strategy, 2, 1))[0].Peak(MemoryCategory::kGathered);
  };
  EXPECT_EQ(gathered(ShardingStrategy::kOptim), 0);
  EXPECT_GT(gathered(ShardingStrategy::kOptimGradsParams), 0);
}

TEST(MeasureMemoryOnceTest, WhatCannotRunIsRefused) {
  RunConfig config = Config(DType::kF32, ShardingStrategy::kNoShard, 1, 1);
  config.parallel.cp = 2;
  EXPECT_THAT([&] { MeasureMemory(config); },
              ThrowsMessage<InvalidArgument>(HasSubstr("--context-parallel-size 2")));
}

}  // namespace
}  // namespace plumbline
