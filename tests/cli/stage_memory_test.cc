#include "cli/stage_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace plumbline {
namespace {

using testing::ElementsAre;

// 872 elements; with the distributed optimizer 1152 in one bucket, shards of 288 (counted in
// tests/cli/describing_commands_test.cc).
RunConfig Small(ShardingStrategy strategy) {
  RunConfig config;
  config.model.num_layers = 1;
  config.model.hidden_size = 8;
  config.model.ffn_hidden_size = 32;
  config.model.num_attention_heads = 2;
  config.model.num_query_groups = 2;
  config.model.kv_channels = 4;
  config.model.vocab_size = 10;
  config.model.padded_vocab_size = 10;
  config.model.normalization = Normalization::kRmsNorm;
  config.model.add_bias_linear = false;
  config.model.position_embedding = PositionEmbedding::kNone;
  config.parallel.dp = 4;
  config.train.global_batch_size = 8;
  config.dtype = DType::kBF16;
  config.parallel.data.gradient_buffers = true;
  config.parallel.data.sharding_strategy = strategy;
  return config;
}

std::vector<std::string> Lines(const RunConfig& config, int shard) {
  std::vector<std::string> lines;
  for (const StateMemory& memory : StageMemory(config, StageBuffersOf(config, 0), shard)) {
    lines.push_back(std::string(Name(memory.per_parameter.state)) + " " +
                    std::to_string(static_cast<int64_t>(memory.formula)) + " " +
                    std::to_string(memory.layout));
  }
  return lines;
}

TEST(StageMemoryTest, NothingIsPaddedWhenNothingIsSharedOut) {
  EXPECT_THAT(Lines(Small(ShardingStrategy::kNoShard), 0),
              ElementsAre("weights 1744 1744", "main gradients 3488 3488",
                          "master weights 3488 3488", "moments 6976 6976"));
}

// Buffers of 1152; 872 / 4 = 218 by formula. Shard 0 owns 8 of the final norm and 224 of fc2; shard
// 3 owns 32 of qkv, 8 and 80.
TEST(StageMemoryTest, OptimizerStateIsOfWhatAShardOwns) {
  EXPECT_THAT(Lines(Small(ShardingStrategy::kOptim), 0),
              ElementsAre("weights 1744 2304", "main gradients 3488 4608", "master weights 872 928",
                          "moments 1744 1856"));
  EXPECT_THAT(Lines(Small(ShardingStrategy::kOptim), 3),
              ElementsAre("weights 1744 2304", "main gradients 3488 4608", "master weights 872 480",
                          "moments 1744 960"));
}

// A bucket for each unit: head 8 -> 128, layer 784 (with gaps 840) -> 896, embedding 80 -> 128:
// 1152, shards of 288.
TEST(StageMemoryTest, ShardedGradientsAndWeightsAreOneShardOfEachUnit) {
  const auto grads = Lines(Small(ShardingStrategy::kOptimGrads), 0);
  EXPECT_EQ(grads[0], "weights 1744 2304");
  EXPECT_EQ(grads[1], "main gradients 872 1152");
  const auto weights = Lines(Small(ShardingStrategy::kOptimGradsParams), 0);
  EXPECT_EQ(weights[0], "weights 436 576");
  EXPECT_EQ(weights[1], "main gradients 872 1152");
}

TEST(StageMemoryTest, GradientCopiesAreInTheFormulaAlone) {
  RunConfig config = Small(ShardingStrategy::kNoShard);
  config.parallel.data.grads_in_param_dtype = true;
  EXPECT_THAT(Lines(config, 0),
              ElementsAre("weights 1744 1744", "main gradients 1744 1744", "gradient copies 3488 0",
                          "master weights 3488 3488", "moments 6976 6976"));
}

TEST(StageMemoryTest, ShardsOwnEveryParameterOnce) {
  for (ShardingStrategy strategy : {ShardingStrategy::kOptim, ShardingStrategy::kOptimGrads,
                                    ShardingStrategy::kOptimGradsParams}) {
    const RunConfig config = Small(strategy);
    const StageBuffers stage = StageBuffersOf(config, 0);
    int64_t moments = 0;
    for (int shard = 0; shard < 4; ++shard) {
      moments += StageMemory(config, stage, shard).back().layout;
    }
    EXPECT_EQ(moments, 8 * stage.elements());
  }
}

}  // namespace
}  // namespace plumbline
