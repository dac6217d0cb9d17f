#include "parallel/data/buffer_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"

namespace plumbline {
namespace {

using testing::ElementsAre;

std::vector<BufferParameter> Parameters(const std::vector<int64_t>& elements) {
  std::vector<BufferParameter> parameters;
  for (size_t i = 0; i < elements.size(); ++i) {
    parameters.push_back({"p" + std::to_string(i), elements[i]});
  }
  return parameters;
}

std::vector<std::pair<int64_t, int64_t>> Ranges(const BufferLayout& layout) {
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (const ParameterRange& each : layout.ranges) {
    ranges.emplace_back(each.range.begin, each.range.end);
  }
  return ranges;
}

std::vector<std::pair<int64_t, int64_t>> Buckets(const BufferLayout& layout) {
  std::vector<std::pair<int64_t, int64_t>> buckets;
  for (const Bucket& each : layout.buckets) buckets.emplace_back(each.range.begin, each.range.end);
  return buckets;
}

// Sizes of each bucket group.
std::vector<size_t> GroupSizes(const std::vector<BucketGroup>& groups) {
  std::vector<size_t> sizes;
  for (const BucketGroup& group : groups) sizes.push_back(group.members.size());
  return sizes;
}

TEST(BufferLayoutTest, ReverseCreationOrderWithoutPaddingWhenNothingIsSharded) {
  const auto layouts = LayOutBuffers(Parameters({10, 20, 30}), {.shards = 3, .bucket_size = 30});
  ASSERT_EQ(layouts.size(), 1u);
  EXPECT_EQ(layouts[0].ranges[0].parameter, 2);
  EXPECT_THAT(Ranges(layouts[0]),
              ElementsAre(std::pair(0, 30), std::pair(30, 50), std::pair(50, 60)));
  EXPECT_THAT(Buckets(layouts[0]), ElementsAre(std::pair(0, 30), std::pair(30, 60)));
  EXPECT_THAT(layouts[0].buckets[1].parameters, ElementsAre(1, 0));
  EXPECT_EQ(layouts[0].padding(), 0);
}

// Reverse order: 100 at 0, ends at 100 and the next starts at 128; 30 at 128; bucket ends at
// lcm(3, 128) = 384. A bucket closes by what it spans, inner padding included: 158 >= 150.
TEST(BufferLayoutTest, ShardedBucketsAlignParametersAndEnds) {
  const auto layouts =
      LayOutBuffers(Parameters({7, 30, 100}),
                    {.shards = 3, .use_distributed_optimizer = true, .bucket_size = 150});
  ASSERT_EQ(layouts.size(), 1u);
  EXPECT_THAT(Ranges(layouts[0]),
              ElementsAre(std::pair(0, 100), std::pair(128, 158), std::pair(384, 391)));
  EXPECT_THAT(Buckets(layouts[0]), ElementsAre(std::pair(0, 384), std::pair(384, 768)));
  EXPECT_EQ(layouts[0].buckets[0].unpadded_end, 158);
  EXPECT_EQ(layouts[0].elements(), 768);
  EXPECT_EQ(layouts[0].padding(), 768 - 137);
}

TEST(BufferLayoutTest, BusPaddingRoundsBucketsToMultiplesOf65536) {
  const auto layouts = LayOutBuffers(
      Parameters({10}),
      {.shards = 6, .use_distributed_optimizer = true, .pad_for_high_nccl_busbw = true});
  EXPECT_EQ(layouts[0].elements(), 3 * 65536);
}

TEST(BufferLayoutTest, SharedEmbeddingHasABucketOfItsOwnOnlyWhenSharded) {
  std::vector<BufferParameter> parameters = Parameters({500, 20, 30});
  parameters[1].shared_embedding = true;
  BufferOptions options = {.shards = 2, .use_distributed_optimizer = true};
  const auto sharded = LayOutBuffers(parameters, options);
  ASSERT_EQ(sharded[0].buckets.size(), 3u);
  EXPECT_THAT(sharded[0].buckets[1].parameters, ElementsAre(1));
  options.use_distributed_optimizer = false;
  EXPECT_EQ(LayOutBuffers(parameters, options)[0].buckets.size(), 1u);
}

TEST(BufferLayoutTest, SharedEmbeddingAtTheEndsMakesNoEmptyBucket) {
  for (int index : {0, 2}) {
    std::vector<BufferParameter> parameters = Parameters({50, 20, 30});
    parameters[static_cast<size_t>(index)].shared_embedding = true;
    const auto layouts =
        LayOutBuffers(parameters, {.shards = 2, .use_distributed_optimizer = true});
    EXPECT_EQ(layouts[0].buckets.size(), 2u) << index;
  }
}

// First and last stage hold different parameters beside the tied embedding, and own the same parts
// of it.
TEST(BufferLayoutTest, SharedEmbeddingIsShardedAlikeOnBothStages) {
  std::vector<BufferParameter> first = Parameters({1000, 64, 77});
  std::vector<BufferParameter> last = Parameters({333, 5, 1000});
  first[0].shared_embedding = true;
  last[2].shared_embedding = true;
  const BufferOptions options = {.shards = 4, .use_distributed_optimizer = true};
  const auto a = LayOutBuffers(first, options);
  const auto b = LayOutBuffers(last, options);
  const Bucket& of_first = a[0].buckets.back();
  const Bucket& of_last = b[0].buckets.front();
  for (int shard = 0; shard < 4; ++shard) {
    EXPECT_EQ(ShardOf(of_first, shard, 4).begin - of_first.range.begin,
              ShardOf(of_last, shard, 4).begin - of_last.range.begin);
  }
  EXPECT_EQ(of_first.range.size(), of_last.range.size());
}

TEST(BufferLayoutTest, OneBufferPerDtypesAndExpert) {
  std::vector<BufferParameter> parameters = Parameters({1, 2, 4, 8});
  parameters[0].expert = true;
  parameters[1].param_dtype = DType::kBF16;
  parameters[3].param_dtype = DType::kBF16;
  const auto layouts = LayOutBuffers(parameters, {.bucket_size = 1});
  ASSERT_EQ(layouts.size(), 3u);
  EXPECT_EQ(layouts[0].param_dtype, DType::kBF16);
  EXPECT_EQ(layouts[0].elements(), 10);
  EXPECT_EQ(layouts[1].elements(), 4);
  EXPECT_TRUE(layouts[2].expert);
  EXPECT_EQ(layouts[2].elements(), 1);
  EXPECT_THAT(GroupSizes(GroupBuckets(layouts, {})), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(GroupSizes(GroupBuckets(layouts, {.single_bucket_group = true})), ElementsAre(3, 1));
}

TEST(BufferLayoutTest, NoParametersNoBuffers) {
  EXPECT_TRUE(LayOutBuffers({}, {}).empty());
  EXPECT_TRUE(GroupBuckets({}, {}).empty());
}

TEST(BufferLayoutTest, UnitsAreBucketsAndASharedEmbeddingStaysAlone) {
  std::vector<BufferParameter> parameters = Parameters({100, 10, 20, 30, 40});
  parameters[0].shared_embedding = true;
  const std::vector<int> units = {0, 0, 1, 1, 2};
  const auto layouts = LayOutUnits(parameters, units, {.shards = 2});
  ASSERT_EQ(layouts.size(), 1u);
  std::vector<int> of_bucket;
  for (const Bucket& bucket : layouts[0].buckets) of_bucket.push_back(bucket.unit);
  EXPECT_THAT(of_bucket, ElementsAre(2, 1, 0, 0));
  EXPECT_THAT(layouts[0].buckets[1].parameters, ElementsAre(3, 2));
  EXPECT_THAT(Buckets(layouts[0]), ElementsAre(std::pair(0, 128), std::pair(128, 256),
                                               std::pair(256, 384), std::pair(384, 512)));
}

TEST(BufferLayoutTest, ScatteredUnitIsRefused) {
  const std::vector<int> units = {0, 1, 0};
  EXPECT_THROW(LayOutUnits(Parameters({1, 1, 1}), units, {}), Internal);
}

RunConfig Overlapping() {
  RunConfig config;
  config.parallel.dp = 8;
  config.parallel.pp = 2;
  config.parallel.data.gradient_buffers = true;
  config.parallel.data.overlap_grad_reduce = true;
  return config;
}

TEST(BufferOptionsTest, BucketsOnlyOnTheFirstStagesFirstChunkAndWithOverlap) {
  RunConfig config = Overlapping();
  config.parallel.data.bucket_size = 17;
  EXPECT_EQ(BufferOptionsOf(config, 0, 0).bucket_size, 17);
  EXPECT_EQ(BufferOptionsOf(config, 1, 0).bucket_size, std::nullopt);
  EXPECT_EQ(BufferOptionsOf(config, 0, 1).bucket_size, std::nullopt);
  EXPECT_TRUE(BufferOptionsOf(config, 0, 1).single_bucket_group);
  EXPECT_FALSE(BufferOptionsOf(config, 1, 0).single_bucket_group);
  config.parallel.data.overlap_grad_reduce = false;
  EXPECT_EQ(BufferOptionsOf(config, 0, 0).bucket_size, std::nullopt);
}

TEST(BufferOptionsTest, DefaultBucketSizeGrowsBeyondFortyRanks) {
  RunConfig config = Overlapping();
  EXPECT_EQ(BucketSizeOf(config.parallel), 40'000'000);
  config.parallel.dp = 41;
  EXPECT_EQ(BucketSizeOf(config.parallel), 41'000'000);
}

TEST(BufferOptionsTest, ContextParallelRanksShardAndInstancesDivide) {
  RunConfig config = Overlapping();
  config.parallel.cp = 2;
  config.parallel.data.sharding_strategy = ShardingStrategy::kOptim;
  config.parallel.data.num_distributed_optimizer_instances = 4;
  const BufferOptions options = BufferOptionsOf(config, 0, 0);
  EXPECT_EQ(options.shards, 4);
  EXPECT_TRUE(options.use_distributed_optimizer);
}

using LawCase = std::tuple<int, bool, int64_t>;

class BufferLayoutLawTest : public testing::TestWithParam<LawCase> {};

TEST_P(BufferLayoutLawTest, BucketsTileTheBufferAndShardsCoverEachParameterOnce) {
  const auto [shards, sharded, bucket_size] = GetParam();
  const std::vector<BufferParameter> parameters = Parameters({129, 0, 1, 64, 1000, 63, 17, 256});
  BufferOptions options = {.shards = shards, .use_distributed_optimizer = sharded};
  if (bucket_size > 0) options.bucket_size = bucket_size;
  const BufferLayout layout = LayOutBuffers(parameters, options).at(0);

  int64_t position = 0;
  for (const Bucket& bucket : layout.buckets) {
    EXPECT_EQ(bucket.range.begin, position);
    EXPECT_LE(bucket.unpadded_end, bucket.range.end);
    position = bucket.range.end;
    if (sharded) {
      EXPECT_EQ(bucket.range.end % std::lcm(shards, 128), 0);
    } else {
      EXPECT_EQ(bucket.range.end, bucket.unpadded_end);
    }
  }
  EXPECT_EQ(layout.elements(), position);
  ASSERT_EQ(layout.ranges.size(), parameters.size());
  for (size_t i = 0; i < layout.ranges.size(); ++i) {
    const ParameterRange& each = layout.ranges[i];
    EXPECT_EQ(each.parameter, static_cast<int>(parameters.size() - 1 - i));
    EXPECT_EQ(each.range.size(), parameters[static_cast<size_t>(each.parameter)].elements);
    if (i > 0) {
      EXPECT_GE(each.range.begin, layout.ranges[i - 1].range.end);
    }
    const Bucket& bucket = layout.buckets[static_cast<size_t>(each.bucket)];
    EXPECT_EQ(Intersection(each.range, bucket.range), each.range);
    if (!sharded) continue;
    EXPECT_EQ(each.range.begin % 64, 0);
    int64_t owned = 0;
    for (int shard = 0; shard < shards; ++shard) {
      owned += Intersection(each.range, ShardOf(bucket, shard, shards)).size();
    }
    EXPECT_EQ(owned, each.range.size());
  }
}

// Every bucket but the last reaches the size, and would not without its last parameter.
TEST_P(BufferLayoutLawTest, BucketClosesAsSoonAsItHoldsItsSize) {
  const auto [shards, sharded, bucket_size] = GetParam();
  const std::vector<BufferParameter> parameters = Parameters({129, 0, 1, 64, 1000, 63, 17, 256});
  BufferOptions options = {.shards = shards, .use_distributed_optimizer = sharded};
  if (bucket_size > 0) options.bucket_size = bucket_size;
  const BufferLayout layout = LayOutBuffers(parameters, options).at(0);
  if (bucket_size == 0) {
    EXPECT_EQ(layout.buckets.size(), 1u);
    return;
  }
  for (size_t b = 0; b < layout.buckets.size(); ++b) {
    const Bucket& bucket = layout.buckets[b];
    if (b + 1 < layout.buckets.size()) {
      EXPECT_GE(bucket.unpadded_end - bucket.range.begin, bucket_size);
    }
    for (const ParameterRange& each : layout.ranges) {
      if (each.bucket != static_cast<int>(b) || each.parameter == bucket.parameters.back())
        continue;
      EXPECT_LT(each.range.end - bucket.range.begin, bucket_size);
    }
  }
}

// Whatever the unit sizes: buckets tile the buffer, each shards evenly and holds one unit, and
// every unit is there.
TEST_P(BufferLayoutLawTest, UnitsTileTheBufferToo) {
  const int shards = std::get<0>(GetParam());
  const std::vector<BufferParameter> parameters = Parameters({129, 0, 1, 64, 1000, 63, 17, 256});
  const std::vector<int> units = {4, 4, 7, 7, 7, 1, 0, 0};
  const BufferLayout layout = LayOutUnits(parameters, units, {.shards = shards}).at(0);
  int64_t position = 0;
  std::vector<int> seen;
  for (const Bucket& bucket : layout.buckets) {
    EXPECT_EQ(bucket.range.begin, position);
    position = bucket.range.end;
    EXPECT_EQ(bucket.range.size() % shards, 0);
    for (int parameter : bucket.parameters) {
      EXPECT_EQ(units[static_cast<size_t>(parameter)], bucket.unit);
    }
    seen.push_back(bucket.unit);
  }
  EXPECT_THAT(seen, ElementsAre(0, 1, 7, 4));
  EXPECT_EQ(layout.elements(), position);
}

TEST_P(BufferLayoutLawTest, EveryBucketIsInOneGroup) {
  const auto [shards, sharded, bucket_size] = GetParam();
  std::vector<BufferParameter> parameters = Parameters({129, 0, 1, 64, 1000, 63, 17, 256});
  parameters[2].param_dtype = DType::kBF16;
  parameters[5].expert = true;
  for (bool single : {false, true}) {
    BufferOptions options = {.shards = shards, .use_distributed_optimizer = sharded};
    options.single_bucket_group = single;
    if (bucket_size > 0) options.bucket_size = bucket_size;
    const std::vector<BufferLayout> layouts = LayOutBuffers(parameters, options);
    std::set<std::pair<int, int>> grouped;
    for (const BucketGroup& group : GroupBuckets(layouts, options)) {
      for (const BucketGroup::Member& member : group.members) {
        EXPECT_TRUE(grouped.insert({member.buffer, member.bucket}).second);
        EXPECT_EQ(layouts[static_cast<size_t>(member.buffer)].expert,
                  layouts[static_cast<size_t>(group.members[0].buffer)].expert);
      }
    }
    size_t buckets = 0;
    for (const BufferLayout& layout : layouts) buckets += layout.buckets.size();
    EXPECT_EQ(grouped.size(), buckets);
  }
}

std::string CaseName(const testing::TestParamInfo<LawCase>& info) {
  const auto [shards, sharded, bucket_size] = info.param;
  return "shards" + std::to_string(shards) + (sharded ? "sharded" : "whole") + "size" +
         std::to_string(bucket_size);
}

INSTANTIATE_TEST_SUITE_P(Sweep, BufferLayoutLawTest,
                         testing::Combine(testing::Values(1, 2, 3, 4, 8), testing::Bool(),
                                          testing::Values<int64_t>(0, 1, 100, 128, 1000, 100000)),
                         CaseName);

}  // namespace
}  // namespace plumbline
