// Every legal way to share out a parameter's states over data-parallel ranks against the reference:
// in f64 within the bound, over a prime field without any tolerance.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "scenarios/verify.h"
#include "tests/base/sweep.h"
#include "tests/scenarios/scenario_testing.h"

namespace plumbline {
namespace {

struct Overlap {
  const char* name;
  bool grads;
  bool params;
};
constexpr Overlap kOverlaps[] = {
    {"none", false, false}, {"grad", true, false}, {"both", true, true}};

// Elements after which a bucket closes: never, after about a third of the smallest model, at once.
constexpr int64_t kBucketSizes[] = {0, 4000, 1};

struct Cell {
  std::string name;
  Scenario scenario;
};

bool IsLegal(const RunConfig& config) {
  try {
    Validate(config);
    return true;
  } catch (const InvalidArgument&) {
    return false;
  }
}

bool HasBuckets(ShardingStrategy strategy, const Overlap& overlap) {
  return overlap.grads &&
         (strategy == ShardingStrategy::kNoShard || strategy == ShardingStrategy::kOptim);
}

void AddCells(ShardingStrategy strategy, const Overlap& overlap, int dp, std::vector<Cell>& cells) {
  size_t turn = static_cast<size_t>(dp);
  for (const int64_t bucket_size : kBucketSizes) {
    if (bucket_size > 0 && !HasBuckets(strategy, overlap)) continue;
    for (const int tp : {1, 2}) {
      for (const int pp : {1, 2}) {
        for (const int microbatches : {1, 3}) {
          const std::vector<NamedModel> models = NamedModels();
          const NamedModel& model = models[turn++ % models.size()];
          Cell cell;
          cell.scenario = MakeScenario(model, {tp, dp, tp > 1}, microbatches);
          RunConfig& config = cell.scenario.config;
          config.train.steps = 3;
          config.parallel.pp = pp;
          DataParallelConfig& data = config.parallel.data;
          data.gradient_buffers = true;
          data.sharding_strategy = strategy;
          data.overlap_grad_reduce = overlap.grads;
          data.overlap_param_gather = overlap.params;
          data.bucket_size = bucket_size;
          if (!IsLegal(config)) continue;
          cell.name = std::string(Name(strategy)) + " overlap " + overlap.name + " bucket size " +
                      std::to_string(bucket_size) + " dp " + std::to_string(dp) + " tp " +
                      std::to_string(tp) + " pp " + std::to_string(pp) + " microbatches " +
                      std::to_string(microbatches) + " " + model.name;
          cells.push_back(std::move(cell));
        }
      }
    }
  }
}

using Parameters = std::tuple<ShardingStrategy, int, DType>;

class DataParallelVerifyTest : public ::testing::TestWithParam<Parameters> {};

TEST_P(DataParallelVerifyTest, EqualsTheReference) {
  const auto& [strategy, dp, dtype] = GetParam();
  std::vector<Cell> cells;
  for (const Overlap& overlap : kOverlaps) AddCells(strategy, overlap, dp, cells);
  ASSERT_GE(cells.size(), 16u);
  std::vector<Cell> sweep = SweepOf(std::move(cells));
  for (Cell& cell : sweep) {
    cell.scenario.config.dtype = dtype;
    const Verdict verdict = VerifyText(cell.scenario);
    ASSERT_TRUE(verdict.pass) << cell.name << "\n" << Describe(verdict);
    int64_t masters = 0;
    for (const ComparedQuantity& quantity : verdict.compared) {
      if (quantity.quantity == "main_param") masters = quantity.tensors;
    }
    EXPECT_EQ(masters > 0, strategy != ShardingStrategy::kNoShard) << cell.name;
  }
}

std::string NameOf(const Parameters& parameters) {
  const auto& [strategy, dp, dtype] = parameters;
  return std::string(Name(strategy)) + "_dp" + std::to_string(dp) + "_" + std::string(Name(dtype));
}

INSTANTIATE_TEST_SUITE_P(All, DataParallelVerifyTest,
                         ::testing::Combine(::testing::Values(ShardingStrategy::kNoShard,
                                                              ShardingStrategy::kOptim,
                                                              ShardingStrategy::kOptimGrads,
                                                              ShardingStrategy::kOptimGradsParams),
                                            ::testing::Values(1, 2, 3, 4, 8),
                                            ::testing::Values(DType::kF64, DType::kM61)),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace plumbline
