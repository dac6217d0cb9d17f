// Overlap changes when collectives run, not what comes out: all tensors are equal bit for bit, with
// overlap and without, on every schedule.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>

#include "tests/parallel/train/run_layout.h"

namespace plumbline {
namespace {

constexpr int64_t kManyBuckets = 3000;

RunConfig Config(ShardingStrategy strategy, bool grads, bool params, bool average,
                 int64_t bucket_size) {
  RunConfig config;
  config.model.num_query_groups = 2;
  config.train.global_batch_size = 2 * 3 * 3;
  config.train.steps = 3;
  config.parallel.tp = 2;
  config.parallel.dp = 3;
  config.parallel.sequence_parallel = true;
  DataParallelConfig& data = config.parallel.data;
  data.gradient_buffers = true;
  data.sharding_strategy = strategy;
  data.overlap_grad_reduce = grads;
  data.overlap_param_gather = params;
  data.average_in_collective = average;
  data.bucket_size = bucket_size;
  return config;
}

// Buckets exist with overlap alone, and with them shards are cut otherwise, so that the norm's
// squares add in another order; without clipping nothing else knows.
void DropNorm(LayoutRun& run) {
  std::erase_if(run.tensors,
                [](const auto& entry) { return entry.second.site.tensor == "grad_norm"; });
}

using Parameters = std::tuple<ShardingStrategy, bool, int64_t>;
class DataParallelOverlapTest : public ::testing::TestWithParam<Parameters> {};

TEST_P(DataParallelOverlapTest, ChangesNoBit) {
  const auto& [strategy, average, bucket_size] = GetParam();
  const bool recut = bucket_size > 0 && strategy == ShardingStrategy::kOptim;
  const auto config_of = [&](bool grads, bool params) {
    RunConfig config = Config(strategy, grads, params, average, bucket_size);
    if (recut) config.train.clip_grad = 0;
    return config;
  };
  const RunConfig plain = config_of(false, false);
  LayoutRun reference = RunLayout(plain);
  if (recut) DropNorm(reference);
  ASSERT_TRUE(reference.complaints.empty()) << reference.complaints.front();
  ASSERT_GT(reference.tensors.size(), 100u);
  const bool shards = strategy != ShardingStrategy::kNoShard;
  for (const auto& [grads, params] : {std::pair(true, false), std::pair(true, shards)}) {
    const RunConfig overlapped = config_of(grads, params);
    for (uint64_t seed = 0; seed < 4; ++seed) {
      LayoutOptions options;
      options.schedule = seed == 0 ? SchedulePolicy::kRoundRobin : SchedulePolicy::kRandom;
      options.schedule_seed = seed;
      LayoutRun run = RunLayout(overlapped, options);
      if (recut) DropNorm(run);
      EXPECT_TRUE(run.complaints.empty()) << run.complaints.front();
      EXPECT_EQ(Differences(run, overlapped, reference, plain, 0), "") << "seed " << seed;
      EXPECT_EQ(run.counters, reference.counters);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, DataParallelOverlapTest,
                         ::testing::Combine(::testing::Values(ShardingStrategy::kNoShard,
                                                              ShardingStrategy::kOptim,
                                                              ShardingStrategy::kOptimGrads,
                                                              ShardingStrategy::kOptimGradsParams),
                                            ::testing::Bool(), ::testing::Values(0, kManyBuckets)),
                         [](const auto& info) {
                           return std::string(Name(std::get<0>(info.param))) +
                                  (std::get<1>(info.param) ? "_averaged" : "_scaled") +
                                  (std::get<2>(info.param) > 0 ? "_many_buckets" : "_one_bucket");
                         });

// Two optimizer instances of two ranks each: reduce_scatter inside, all_reduce between.
TEST(DistributedOptimizerInstances, EqualOneInstance) {
  RunConfig one = Config(ShardingStrategy::kOptim, true, true, false, kManyBuckets);
  one.parallel.dp = 4;
  one.train.global_batch_size = 2 * 4 * 2;
  RunConfig two = one;
  two.parallel.data.num_distributed_optimizer_instances = 2;
  const LayoutRun reference = RunLayout(one);
  const LayoutRun run = RunLayout(two);
  ASSERT_TRUE(run.complaints.empty()) << run.complaints.front();
  EXPECT_EQ(Differences(run, two, reference, one, 1e-12), "");
  EXPECT_GT(run.collectives, reference.collectives);
}

}  // namespace
}  // namespace plumbline
