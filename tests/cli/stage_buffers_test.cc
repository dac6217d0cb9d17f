#include "cli/stage_buffers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace plumbline {
namespace {

using testing::ElementsAre;

RunConfig Config(int pp) {
  RunConfig config;
  config.model.num_layers = 4;
  config.parallel.dp = 2;
  config.parallel.pp = pp;
  config.train.global_batch_size = 16;
  config.parallel.data.gradient_buffers = true;
  return config;
}

// Chunk and first created parameter of each bucket, in the order of readiness.
std::vector<std::string> ReadyOrder(const StageBuffers& stage) {
  std::vector<std::string> order;
  for (const BucketPlace& place : stage.ready_order) {
    const ChunkBuffers& chunk = stage.chunks[static_cast<size_t>(place.chunk)];
    const int created = stage.At(place).parameters.back();
    order.push_back(std::to_string(place.chunk) + " " +
                    chunk.parameters[static_cast<size_t>(created)].name);
  }
  return order;
}

TEST(StageBuffersTest, BucketsAreReadyFromTheModelsEndToItsStart) {
  RunConfig config = Config(1);
  config.parallel.data.sharding_strategy = ShardingStrategy::kOptimGrads;
  EXPECT_THAT(
      ReadyOrder(StageBuffersOf(config, 0)),
      ElementsAre("0 decoder.final_layernorm.weight", "0 decoder.layers.3.input_layernorm.weight",
                  "0 decoder.layers.2.input_layernorm.weight",
                  "0 decoder.layers.1.input_layernorm.weight",
                  "0 decoder.layers.0.input_layernorm.weight",
                  "0 embedding.position_embeddings.weight", "0 embedding.word_embeddings.weight"));
}

// On two stages the tied table is shared, and has a bucket of its own on both.
TEST(StageBuffersTest, TiedTableIsAloneOnBothStages) {
  RunConfig config = Config(2);
  config.parallel.data.sharding_strategy = ShardingStrategy::kOptim;
  EXPECT_THAT(
      ReadyOrder(StageBuffersOf(config, 0)),
      ElementsAre("0 embedding.position_embeddings.weight", "0 embedding.word_embeddings.weight"));
  EXPECT_THAT(ReadyOrder(StageBuffersOf(config, 1)),
              ElementsAre("0 embedding.word_embeddings.weight",
                          "0 decoder.layers.2.input_layernorm.weight"));
}

// The last chunk's backward comes first.
TEST(StageBuffersTest, ChunksAreReadyAsTheScheduleRunsThem) {
  RunConfig config = Config(2);
  config.parallel.virtual_stages = 2;
  EXPECT_THAT(ReadyOrder(StageBuffersOf(config, 0)),
              ElementsAre("1 decoder.layers.2.input_layernorm.weight",
                          "0 embedding.word_embeddings.weight"));
  const StageBuffers stage = StageBuffersOf(config, 0);
  EXPECT_FALSE(stage.chunks[0].options.single_bucket_group);
  EXPECT_TRUE(stage.chunks[1].options.single_bucket_group);
}

TEST(StageBuffersTest, OnlyTheFirstStagesFirstChunkHasBuckets) {
  RunConfig config = Config(2);
  config.parallel.data.overlap_grad_reduce = true;
  config.parallel.data.bucket_size = 1;
  const StageBuffers first = StageBuffersOf(config, 0);
  EXPECT_EQ(first.ready_order.size(), first.chunks[0].parameters.size());
  EXPECT_EQ(StageBuffersOf(config, 1).ready_order.size(), 1u);
}

TEST(StageBuffersTest, DtypesAreTheRuns) {
  RunConfig config = Config(1);
  config.dtype = DType::kBF16;
  const StageBuffers stage = StageBuffersOf(config, 0);
  ASSERT_EQ(stage.chunks[0].layouts.size(), 1u);
  EXPECT_EQ(stage.chunks[0].layouts[0].param_dtype, DType::kBF16);
  EXPECT_EQ(stage.chunks[0].layouts[0].grad_dtype, DType::kF32);
  EXPECT_EQ(stage.padding(), 0);
  EXPECT_EQ(stage.chunks[0].layouts[0].elements(), stage.elements());
}

TEST(StageBuffersTest, EveryBucketIsInOneGroup) {
  RunConfig config = Config(1);
  config.parallel.data.overlap_grad_reduce = true;
  config.parallel.data.bucket_size = 5000;
  const StageBuffers stage = StageBuffersOf(config, 0);
  const ChunkBuffers& chunk = stage.chunks[0];
  for (size_t i = 0; i < chunk.layouts[0].buckets.size(); ++i) {
    EXPECT_EQ(chunk.GroupOf(0, static_cast<int>(i)), static_cast<int>(i));
  }
}

}  // namespace
}  // namespace plumbline
