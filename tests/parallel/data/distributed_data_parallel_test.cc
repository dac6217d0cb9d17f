#include "parallel/data/distributed_data_parallel.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/parallel/tensor/module_world.h"

namespace plumbline {
namespace {

// Two data-parallel ranks, two microbatches, three parameters of four elements, a bucket each.
RunConfig Config(ShardingStrategy strategy, bool overlap) {
  RunConfig config = TensorParallelConfig(1, false);
  config.parallel.dp = 2;
  config.train.global_batch_size = 2 * 2 * config.train.micro_batch_size;
  DataParallelConfig& data = config.parallel.data;
  data.gradient_buffers = true;
  data.sharding_strategy = strategy;
  data.overlap_grad_reduce = overlap;
  data.bucket_size = 1;
  return config;
}

struct Model {
  explicit Model(const RankEnv& env) {
    for (const char* name : {"a", "b", "c"}) {
      parameters.push_back(std::make_unique<Parameter>(MakeParameter(env, 0, name, {4}, {})));
      units.push_back({parameters.back().get()});
    }
  }
  Parameter& operator[](size_t i) { return *parameters[i]; }

  std::vector<std::unique_ptr<Parameter>> parameters;
  std::vector<std::vector<Parameter*>> units;
};

void AddTo(const RankEnv& env, Parameter& parameter, double value) {
  parameter.AddGradient(
      env, BackwardPass(),
      Tensor::FromVector<double>(env.context(), {4}, {value, value, value, value}));
}

void Backward(const RankEnv& env, DistributedDataParallel& ddp, Model& model, int microbatch) {
  ddp.BeginBackward(microbatch);
  for (const size_t i : {2, 1, 0}) {
    AddTo(env, model[i], static_cast<double>(10 * (i + 1) + env.global_rank() + microbatch));
  }
}

// Microbatches add up, ranks average: (10 i + r) + (10 i + r + 1) over r = 0, 1 is 20 i + 2.
TEST(DistributedDataParallel, AveragesTheSumOfMicrobatchesOverRanks) {
  for (const ShardingStrategy strategy : {ShardingStrategy::kNoShard, ShardingStrategy::kOptim}) {
    for (const bool overlap : {false, true}) {
      OnEachRank(Config(strategy, overlap), [](const RankEnv& env) {
        Streams streams(WorldOptions{}, env.global_rank());
        Model model(env);
        DistributedDataParallel ddp(env, streams, model.units, 0);
        ddp.BeginStep(1);
        Backward(env, ddp, model, 0);
        Backward(env, ddp, model, 1);
        ddp.FinishGradSync();
        for (size_t i = 0; i < 3; ++i) {
          for (const double value : model[i].owned_grad().ToVector<double>()) {
            EXPECT_EQ(value, 20.0 * static_cast<double>(i + 1) + 2);
          }
        }
      });
    }
  }
}

TEST(DistributedDataParallel, TheBuffersHoldWhatTheParametersShow) {
  OnEachRank(Config(ShardingStrategy::kOptim, true), [](const RankEnv& env) {
    Streams streams(WorldOptions{}, env.global_rank());
    Model model(env);
    const std::vector<double> before = model[1].value.ToVector<double>();
    DistributedDataParallel ddp(env, streams, model.units, 0);
    EXPECT_EQ(model[1].value.ToVector<double>(), before);
    EXPECT_TRUE(model[0].main_grad.SharesStorage(model[2].main_grad));
    EXPECT_TRUE(model[0].value.SharesStorage(model[2].value));
    ASSERT_TRUE(model[1].owned.has_value());
    // A bucket of 128 elements of which the first four are the parameter: all are rank 0's.
    EXPECT_EQ(model[1].owned_grad().elements(), env.global_rank() == 0 ? 4 : 0);
  });
}

// Rank 0 changes its part, and after the gather both have it.
TEST(DistributedDataParallel, GathersUpdatedWeights) {
  OnEachRank(Config(ShardingStrategy::kOptim, true), [](const RankEnv& env) {
    Streams streams(WorldOptions{}, env.global_rank());
    Model model(env);
    DistributedDataParallel ddp(env, streams, model.units, 0);
    ddp.BeginStep(1);
    for (size_t i = 0; i < 3; ++i) {
      Tensor own = model[i].owned_value();
      for (int64_t k = 0; k < own.elements(); ++k) own.at<double>({k}) = 7;
    }
    ddp.StartParamSync();
    ddp.FinishParamSync();
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(model[i].value.ToVector<double>(), (std::vector<double>{7, 7, 7, 7}));
    }
  });
}

// Reports what a rank is told about itself.
class FaultProbe : public BlindProbe {
 public:
  void ObserveFault(FindingClass kind, const Site& site, const std::string&) override {
    faults.push_back(std::string(Name(kind)) + " " + site.tensor);
  }
  std::vector<std::string> faults;
};

// b gets no gradient on rank 0 alone: buckets still go out in one order, and rank 0 says so.
TEST(DistributedDataParallel, AnUnusedParameterIsReportedAndNobodyHangs) {
  const RunConfig config = Config(ShardingStrategy::kNoShard, true);
  OnEachRank(config, [&](const RankEnv& whole) {
    FaultProbe probe;
    const RankEnv env(whole.context(), whole.comm(), whole.mesh(), config, whole.policies(),
                      whole.parameters(), probe);
    Streams streams(WorldOptions{}, env.global_rank());
    Model model(env);
    DistributedDataParallel ddp(env, streams, model.units, 0);
    ddp.BeginStep(1);
    ddp.BeginBackward(1);
    AddTo(env, model[2], 1);
    if (env.global_rank() == 1) AddTo(env, model[1], 1);
    AddTo(env, model[0], 1);
    ddp.FinishGradSync();
    EXPECT_EQ(model[1].main_grad.ToVector<double>(), (std::vector<double>{0.5, 0.5, 0.5, 0.5}));
    EXPECT_EQ(model[0].main_grad.at<double>({0}), 1);
    EXPECT_EQ(probe.faults, env.global_rank() == 0
                                ? (std::vector<std::string>{"unused_parameter b"})
                                : std::vector<std::string>{});
  });
}

}  // namespace
}  // namespace plumbline
