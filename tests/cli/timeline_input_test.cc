#include "cli/timeline_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"

namespace plumbline {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

// One layer of width 8 with two heads, 10 words, RMSNorm, no biases and no positions; 4 ranks.
RunConfig Small() {
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
  config.parallel.data.gradient_buffers = true;
  config.parallel.data.overlap_grad_reduce = true;
  return config;
}

// A ps per parameter is a ns per thousand; 1000 makes it a ns.
constexpr TimelineCosts kPlain = {1000, 2000, 100, 1};

StageTimelineInput Input(const RunConfig& config, int stage = 0) {
  return MakeTimelineInput(config, StageBuffersOf(config, stage), kPlain);
}

TEST(TimelineInputTest, ModulesTakeTheTimeOfTheirParameters) {
  const TimelineInput input = Input(Small()).input;
  std::vector<std::string> units;
  for (const TimelineUnit& unit : input.chunks[0].units) {
    units.push_back(unit.name + " " + std::to_string(unit.forward_ns) + " " +
                    std::to_string(unit.backward_ns));
  }
  EXPECT_THAT(units,
              ElementsAre("embedding.word_embeddings 0 0", "decoder.layers.0.input_layernorm 8 16",
                          "decoder.layers.0.self_attention.linear_qkv 192 384",
                          "decoder.layers.0.self_attention.linear_proj 64 128",
                          "decoder.layers.0.pre_mlp_layernorm 8 16",
                          "decoder.layers.0.mlp.linear_fc1 256 512",
                          "decoder.layers.0.mlp.linear_fc2 256 512", "decoder.final_layernorm 8 16",
                          "output_layer 80 160"));
  ASSERT_EQ(input.passes.size(), 2u);
  EXPECT_EQ(input.passes[1].kind, PassKind::kBackward);
}

TEST(TimelineInputTest, AnUntiedOutputLayerIsOneUnit) {
  RunConfig config = Small();
  config.model.tied_embeddings = false;
  const TimelineInput input = Input(config).input;
  EXPECT_EQ(input.chunks[0].units.size(), 9u);
  EXPECT_EQ(input.chunks[0].units.back().forward_ns, 80);
}

// 872 elements of 8 bytes, all in one bucket: around the ring of 4 twice, 2 * 3/4 * 6976 = 10464 at
// a byte a ns.
TEST(TimelineInputTest, AllReduceGoesAroundTheRingTwice) {
  const TimelineInput input = Input(Small()).input;
  ASSERT_EQ(input.chunks[0].buckets.size(), 1u);
  EXPECT_EQ(input.chunks[0].buckets[0].first_unit, 0);
  EXPECT_EQ(input.chunks[0].buckets[0].reduce_ns, 100 + 10464);
  EXPECT_EQ(input.chunks[0].buckets[0].gather_ns, 0);
}

// 1152 elements with padding. bf16 weights, fp32 gradients: 3/4 of 4608 and of 2304 bytes.
TEST(TimelineInputTest, ReduceScatterAndGatherGoOnce) {
  RunConfig config = Small();
  config.dtype = DType::kBF16;
  config.parallel.data.sharding_strategy = ShardingStrategy::kOptim;
  const StageTimelineInput input = Input(config);
  EXPECT_EQ(input.input.chunks[0].buckets[0].reduce_ns, 100 + 3456);
  EXPECT_EQ(input.input.chunks[0].buckets[0].gather_ns, 100 + 1728);
  EXPECT_EQ(input.elements[0][0], 1152);
}

// Two instances of two: half of 9216 bytes, then all_reduce of 4608 bytes between two.
TEST(TimelineInputTest, InstancesAddAnAllReduceOfTheShard) {
  RunConfig config = Small();
  config.parallel.data.sharding_strategy = ShardingStrategy::kOptim;
  config.parallel.data.num_distributed_optimizer_instances = 2;
  EXPECT_EQ(Input(config).input.chunks[0].buckets[0].reduce_ns, 100 + 4608 + 100 + 4608);
}

TEST(TimelineInputTest, OneRankHasNoCollectives) {
  RunConfig config = Small();
  config.parallel.dp = 1;
  EXPECT_EQ(Input(config).input.chunks[0].buckets[0].reduce_ns, 0);
}

// A bucket a parameter: from the final norm, unit 7, back to the embedding, unit 0.
TEST(TimelineInputTest, BucketsComeInTheOrderOfReadiness) {
  RunConfig config = Small();
  config.parallel.data.bucket_size = 1;
  const StageTimelineInput input = Input(config);
  std::vector<int> first;
  for (const TimelineBucket& bucket : input.input.chunks[0].buckets) {
    first.push_back(bucket.first_unit);
  }
  EXPECT_THAT(first, ElementsAre(7, 6, 5, 4, 3, 2, 1, 0));
  EXPECT_THAT(input.groups[0], ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

// Chunks after the first reduce all their buckets at once: the last stage's chunk 1 has the tied
// table and the rest.
TEST(TimelineInputTest, LaterChunksHaveOneCollective) {
  RunConfig config = Small();
  config.model.num_layers = 4;
  config.parallel.pp = 2;
  config.parallel.virtual_stages = 2;
  config.train.global_batch_size = 32;
  config.parallel.data.sharding_strategy = ShardingStrategy::kOptim;
  const StageTimelineInput input = Input(config, 1);
  EXPECT_EQ(input.input.chunks[1].buckets.size(), 1u);
  EXPECT_EQ(input.input.chunks[1].buckets[0].first_unit, 0);
}

TEST(TimelineInputTest, WhatItDoesNotKnowIsRefused) {
  RunConfig config = Small();
  config.parallel.data.sharding_strategy = ShardingStrategy::kOptimGrads;
  EXPECT_THAT([&] { Input(config); },
              ThrowsMessage<InvalidArgument>(HasSubstr("no_shard and optim alone")));
  TimelineCosts costs = kPlain;
  costs.bandwidth_gbs = 0;
  const RunConfig legal = Small();
  EXPECT_THAT([&] { MakeTimelineInput(legal, StageBuffersOf(legal, 0), costs); },
              ThrowsMessage<InvalidArgument>(HasSubstr("--bandwidth-gbs 0")));
}

}  // namespace
}  // namespace plumbline
