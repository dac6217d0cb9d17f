// What `plumbline buffers` says of buckets, beside what the ranks of a run do with them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/batch.h"
#include "base/error.h"
#include "base/init.h"
#include "base/mesh.h"
#include "cli/stage_buffers.h"
#include "parallel/comm/world.h"
#include "parallel/train/train.h"

namespace plumbline {
namespace {

class BlindProbe : public Probe {
 public:
  void Observe(const Site&, const ObservedLayout&, const Tensor&) override {}
  void ObserveCounter(const Site&, int64_t) override {}
};

// All collectives of one step, in the order of issue.
std::vector<CollectiveRecord> RecordsOf(const RunConfig& config) {
  Validate(config);
  const Mesh mesh(config.parallel);
  const Policies policies;
  const SeededParameters parameters(config.model, config.train.seed);
  const TextBatches batches(config.model, config.train, std::vector<uint8_t>(500, 7));
  WorldOptions options;
  options.size = mesh.world_size();
  const WorldResult result = World(options).Run([&](Rank& rank) {
    BlindProbe probe;
    TrainOnRank(rank, rank.comm(), {config, mesh, parameters, batches, policies}, probe);
  });
  PL_CHECK(result.completed);
  return result.records;
}

// "chunk 1 buffer0.bucket2 of 640" of every reduction of a bucket that a rank issues.
std::vector<std::string> Reduced(const std::vector<CollectiveRecord>& records, int rank) {
  std::vector<std::string> lines;
  for (const CollectiveRecord& record : records) {
    const std::string& tensor = record.site.tensor;
    if (record.global_rank != rank || record.site.quantity != Quantity::kMainGrad) continue;
    if (!tensor.starts_with("buffer") && !tensor.starts_with("unit_bucket")) continue;
    lines.push_back("chunk " + std::to_string(std::max(0, record.site.chunk)) + " " + tensor +
                    " of " + std::to_string(ElementsOf(record.input_shape)));
  }
  return lines;
}

std::vector<std::string> Described(const RunConfig& config, int stage) {
  const StageBuffers buffers = StageBuffersOf(config, stage);
  const bool units = config.parallel.data.sharding_strategy >= ShardingStrategy::kOptimGrads;
  std::vector<std::string> lines;
  for (const BucketPlace& place : buffers.ready_order) {
    const std::string number = std::to_string(place.bucket);
    const std::string tensor = units ? "unit_bucket" + number
                                     : "buffer" + std::to_string(place.buffer) + ".bucket" + number;
    lines.push_back("chunk " + std::to_string(place.chunk) + " " + tensor + " of " +
                    std::to_string(buffers.At(place).range.size()));
  }
  return lines;
}

RunConfig Overlapping(int pp, ShardingStrategy strategy, int64_t bucket_size) {
  RunConfig config;
  config.model.num_layers = 4;
  config.parallel.dp = 2;
  config.parallel.pp = pp;
  config.train.steps = 1;
  config.train.micro_batch_size = 1;
  config.train.global_batch_size = 8;
  config.parallel.data.gradient_buffers = true;
  config.parallel.data.overlap_grad_reduce = true;
  config.parallel.data.sharding_strategy = strategy;
  config.parallel.data.bucket_size = bucket_size;
  return config;
}

// The first rank of each stage; of strategies that reduce every microbatch, the last one's.
void ExpectReducedInTheOrderOfReadiness(const RunConfig& config) {
  const Mesh mesh(config.parallel);
  const std::vector<CollectiveRecord> records = RecordsOf(config);
  for (int stage = 0; stage < config.parallel.pp; ++stage) {
    const std::vector<std::string> described = Described(config, stage);
    std::vector<std::string> reduced = Reduced(records, mesh.RankOf({{"pp", stage}}));
    ASSERT_GE(reduced.size(), described.size()) << "stage " << stage;
    EXPECT_EQ(reduced.size() % described.size(), 0u) << "stage " << stage;
    reduced.erase(reduced.begin(), reduced.end() - static_cast<std::ptrdiff_t>(described.size()));
    EXPECT_EQ(reduced, described) << "stage " << stage;
  }
}

TEST(StageBuffersRunTest, BucketsAreReducedInTheOrderOfReadiness) {
  for (ShardingStrategy strategy : {ShardingStrategy::kNoShard, ShardingStrategy::kOptim}) {
    for (int64_t bucket_size : {1, 3000, 1000000}) {
      for (int pp : {1, 2})
        ExpectReducedInTheOrderOfReadiness(Overlapping(pp, strategy, bucket_size));
    }
  }
}

TEST(StageBuffersRunTest, ChunksAreReducedAsTheScheduleCompletesThem) {
  for (ShardingStrategy strategy : {ShardingStrategy::kNoShard, ShardingStrategy::kOptim}) {
    RunConfig config = Overlapping(2, strategy, 3000);
    config.parallel.virtual_stages = 2;
    ExpectReducedInTheOrderOfReadiness(config);
  }
}

TEST(StageBuffersRunTest, AZeroBubbleScheduleReducesAfterItsWeightParts) {
  RunConfig config = Overlapping(2, ShardingStrategy::kOptim, 3000);
  config.parallel.schedule = "zb-h1";
  ExpectReducedInTheOrderOfReadiness(config);
}

// A tied table on one stage is reduced with both units that use it; so not here.
TEST(StageBuffersRunTest, UnitsAreReducedInTheOrderOfReadiness) {
  for (ShardingStrategy strategy :
       {ShardingStrategy::kOptimGrads, ShardingStrategy::kOptimGradsParams}) {
    RunConfig config = Overlapping(1, strategy, 0);
    config.model.tied_embeddings = false;
    ExpectReducedInTheOrderOfReadiness(config);
    ExpectReducedInTheOrderOfReadiness(Overlapping(2, strategy, 0));
  }
}

}  // namespace
}  // namespace plumbline
