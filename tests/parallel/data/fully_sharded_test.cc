#include "parallel/data/fully_sharded.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/parallel/tensor/module_world.h"

namespace plumbline {
namespace {

constexpr int64_t kElements = 512;  // of a unit, a multiple of the alignment
constexpr int kUnits = 4;

RunConfig Config(ShardingStrategy strategy, bool overlap) {
  RunConfig config = TensorParallelConfig(1, false);
  config.parallel.dp = 2;
  config.train.global_batch_size = 2 * 2 * config.train.micro_batch_size;
  DataParallelConfig& data = config.parallel.data;
  data.gradient_buffers = true;
  data.sharding_strategy = strategy;
  data.overlap_grad_reduce = overlap;
  data.overlap_param_gather = overlap;
  return config;
}

struct Model {
  explicit Model(const RankEnv& env) {
    for (int i = 0; i < kUnits; ++i) {
      parameters.push_back(std::make_unique<Parameter>(
          MakeParameter(env, 0, "unit" + std::to_string(i), {kElements}, {})));
      units.push_back({parameters.back().get()});
      initial.push_back(parameters.back()->value.ToVector<double>());
    }
  }
  std::vector<std::unique_ptr<Parameter>> parameters;
  std::vector<std::vector<Parameter*>> units;
  std::vector<std::vector<double>> initial;
};

Tensor Constant(const RankEnv& env, double value) {
  return Tensor::FromVector<double>(env.context(), {kElements},
                                    std::vector<double>(kElements, value));
}

// Forward through all units, backward through all: each adds a constant of its own.
void Microbatch(const RankEnv& env, FullyShardedDataParallel& fsdp, Model& model, int microbatch) {
  Pass pass = ForwardPass();
  pass.microbatch = microbatch;
  for (int unit = 0; unit < kUnits; ++unit) {
    fsdp.BeforeForward(pass, unit);
    EXPECT_EQ(model.units[static_cast<size_t>(unit)][0]->value.ToVector<double>(),
              model.initial[static_cast<size_t>(unit)]);
    fsdp.AfterForward(pass, unit);
  }
  pass.phase = Phase::kBackward;
  fsdp.BeginBackward(microbatch);
  for (int unit = kUnits; unit-- > 0;) {
    fsdp.BeforeBackward(pass, unit);
    Parameter& parameter = *model.units[static_cast<size_t>(unit)][0];
    EXPECT_EQ(parameter.value.ToVector<double>(), model.initial[static_cast<size_t>(unit)]);
    parameter.AddGradient(env, pass, Constant(env, unit + env.global_rank() + 10 * microbatch));
    fsdp.AfterBackward(pass, unit);
  }
}

class FullyShardedTest : public ::testing::TestWithParam<bool> {};

// (u + 0) + (u + 1) over ranks and 0 + 10 over microbatches, averaged over ranks: 2u + 11.
TEST_P(FullyShardedTest, EachRankHasTheReducedGradientsOfItsShard) {
  for (const ShardingStrategy strategy :
       {ShardingStrategy::kOptimGrads, ShardingStrategy::kOptimGradsParams}) {
    OnEachRank(Config(strategy, GetParam()), [](const RankEnv& env) {
      Streams streams(WorldOptions{}, env.global_rank());
      Model model(env);
      FullyShardedDataParallel fsdp(env, streams, model.units, 0);
      fsdp.BeginStep(1);
      Microbatch(env, fsdp, model, 0);
      Microbatch(env, fsdp, model, 1);
      fsdp.FinishGradSync();
      for (int unit = 0; unit < kUnits; ++unit) {
        const Parameter& parameter = *model.parameters[static_cast<size_t>(unit)];
        EXPECT_EQ(parameter.owned_grad().ToVector<double>(),
                  std::vector<double>(kElements / 2, 2 * unit + 11));
        EXPECT_EQ(parameter.owned->begin, env.global_rank() * kElements / 2);
      }
    });
  }
}

// Without overlap one unit's weights are there at a time, with it the next unit's too.
TEST_P(FullyShardedTest, NoMoreWeightsAreGatheredThanUnitsNeed) {
  const int64_t units_at_once = GetParam() ? 2 : 1;
  OnEachRank(Config(ShardingStrategy::kOptimGradsParams, GetParam()), [&](const RankEnv& env) {
    Streams streams(WorldOptions{}, env.global_rank());
    Model model(env);
    FullyShardedDataParallel fsdp(env, streams, model.units, 0);
    const Allocator& memory = env.context().memory();
    const int64_t unit_bytes = kElements * static_cast<int64_t>(sizeof(double));
    EXPECT_EQ(memory.use(MemoryCategory::kGathered).bytes_now, 0);
    EXPECT_EQ(memory.use(MemoryCategory::kParameter).bytes_now, kUnits * unit_bytes / 2);
    EXPECT_EQ(memory.use(MemoryCategory::kGradient).bytes_now, kUnits * unit_bytes / 2);
    fsdp.BeginStep(1);
    Microbatch(env, fsdp, model, 0);
    fsdp.FinishGradSync();
    EXPECT_EQ(memory.use(MemoryCategory::kGathered).bytes_peak, units_at_once * unit_bytes);
    EXPECT_EQ(memory.use(MemoryCategory::kGathered).bytes_now, 0);
  });
}

TEST_P(FullyShardedTest, WeightsThatStayAreGatheredOnceAStep) {
  OnEachRank(Config(ShardingStrategy::kOptimGrads, GetParam()), [](const RankEnv& env) {
    Streams streams(WorldOptions{}, env.global_rank());
    Model model(env);
    FullyShardedDataParallel fsdp(env, streams, model.units, 0);
    fsdp.BeginStep(1);
    for (const auto& parameter : model.parameters) {
      Tensor own = parameter->owned_value();
      for (int64_t k = 0; k < own.elements(); ++k) own.at<double>({k}) = env.global_rank() + 5;
    }
    fsdp.StartParamSync();
    fsdp.FinishParamSync();
    for (const auto& parameter : model.parameters) {
      EXPECT_EQ(parameter->value.at<double>({0}), 5);
      EXPECT_EQ(parameter->value.at<double>({kElements - 1}), 6);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, FullyShardedTest, ::testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "overlapped" : "one_after_the_other");
});

}  // namespace
}  // namespace plumbline
