#include "parallel/train/stage_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/batch.h"
#include "parallel/pipeline/schedule_builder.h"
#include "tests/parallel/tensor/module_world.h"

namespace plumbline {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

// Two stages of two chunks, a layer each; two data-parallel ranks of four microbatches.
RunConfig TwoStagesOfTwoChunks() {
  RunConfig config = TensorParallelConfig(1, false);
  config.model.num_layers = 4;
  config.parallel.dp = 2;
  config.parallel.pp = 2;
  config.parallel.virtual_stages = 2;
  config.train.global_batch_size = config.train.micro_batch_size * 2 * 4;
  return config;
}

// A forward step that computes nothing: the loss of a microbatch is its number.
ForwardStep Recording(const RankEnv& env, std::vector<Pass>& passes) {
  return [&env, &passes](const Pass& pass, DataIterator& data, const GptModel&, const Tensor&,
                         ForwardState& state) {
    passes.push_back(pass);
    state.data = data.Next();
    StepOutput step;
    step.output = Tensor::Zeros(env.context(), DType::kF64, HiddenShape(env));
    step.loss_func = [pass](const Tensor&) {
      const auto number = static_cast<double>(pass.microbatch);
      return MicrobatchResult{Tensor::FromVector(Context{}, {}, std::vector<double>{number}),
                              Tensor::FromVector(Context{}, {}, std::vector<double>{10}), Tensor()};
    };
    return step;
  };
}

double Value(const Tensor& scalar) { return scalar.ToVector<double>()[0]; }

class StageModelTest : public ::testing::Test {
 protected:
  // On every rank: a model with the recording step, and its stage.
  using Body = std::function<void(const RankEnv&, int stage, StageModel&, std::vector<Pass>&)>;
  void OnEachStage(const Body& body, const Policies& policies = DefaultPolicies()) {
    const TextBatches batches(config_.model, config_.train, {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5});
    const StageLayout layout(config_);
    OnEachRank(
        config_,
        [&](const RankEnv& env) {
          std::vector<Pass> passes;
          StageModel model(env, batches, layout, Recording(env, passes));
          model.BeginStep(3);
          body(env, env.mesh().CoordinateOf(env.global_rank(), "pp"), model, passes);
        },
        policies);
  }

  RunConfig config_ = TwoStagesOfTwoChunks();
};

TEST_F(StageModelTest, APassCarriesTheStepTheGlobalMicrobatchAndTheChunk) {
  OnEachStage([](const RankEnv& env, int, StageModel& model, std::vector<Pass>& passes) {
    for (const int chunk : {0, 1}) {
      for (const int microbatch : {0, 1}) model.Forward(chunk, microbatch, Tensor());
    }
    const int dp_rank = env.mesh().CoordinateOf(env.global_rank(), "dp");
    std::vector<std::tuple<int, int, int>> seen;
    for (const Pass& pass : passes) seen.emplace_back(pass.step, pass.chunk, pass.microbatch);
    EXPECT_THAT(seen, ElementsAre(std::tuple(3, 0, dp_rank), std::tuple(3, 0, 2 + dp_rank),
                                  std::tuple(3, 1, dp_rank), std::tuple(3, 1, 2 + dp_rank)));
  });
}

TEST_F(StageModelTest, TheLastChunkOfTheLastStageAloneMakesALoss) {
  OnEachStage([](const RankEnv& env, int stage, StageModel& model, std::vector<Pass>&) {
    EXPECT_EQ(model.has_loss(), stage == 1);
    for (const int chunk : {0, 1}) {
      for (const int microbatch : {0, 1}) {
        const bool last = stage == 1 && chunk == 1;
        EXPECT_EQ(model.Forward(chunk, microbatch, Tensor()).defined(), !last);
      }
    }
    const int dp_rank = env.mesh().CoordinateOf(env.global_rank(), "dp");
    EXPECT_EQ(Value(model.totals().loss), stage == 1 ? 2 + 2 * dp_rank : 0);
    EXPECT_EQ(Value(model.totals().labels), stage == 1 ? 20 : 0);
    model.BeginStep(4);
    EXPECT_EQ(Value(model.totals().loss), 0) << "a step starts anew";
  });
}

TEST_F(StageModelTest, AStepStartsWithGradientsOfZero) {
  OnEachStage([](const RankEnv&, int, StageModel& model, std::vector<Pass>&) {
    for (Parameter* parameter : model.parameters()) parameter->main_grad.data<double>()[0] = 7;
    model.BeginStep(4);
    for (const Parameter* parameter : model.parameters()) {
      EXPECT_THAT(parameter->main_grad.ToVector<double>(), Each(0.0));
    }
  });
}

TEST_F(StageModelTest, ChunksHoldTheLayersOfTheWholeModelsNumbers) {
  OnEachStage([](const RankEnv&, int stage, StageModel& model, std::vector<Pass>&) {
    for (const int chunk : {0, 1}) {
      const std::string layer = "decoder.layers." + std::to_string(chunk * 2 + stage) + ".";
      size_t of_layer = 0;
      for (const Parameter* parameter : model.ParametersOf(chunk)) {
        const std::string& name = parameter->layout.tensor.name;
        EXPECT_EQ(name.starts_with(layer), name.starts_with("decoder.layers.")) << name;
        of_layer += name.starts_with(layer) ? 1 : 0;
      }
      EXPECT_GT(of_layer, 0u);
    }
  });
}

TEST_F(StageModelTest, CountsWhatTheBusiestChunkHasRead) {
  Policies policies;
  policies.pipeline.batches_skipped = [](int stage, int chunk, int) {
    return stage == 1 && chunk == 0 ? 1 : 0;
  };
  OnEachStage(
      [](const RankEnv&, int stage, StageModel& model, std::vector<Pass>&) {
        model.Forward(0, 0, Tensor());
        model.Forward(1, 0, Tensor());
        EXPECT_EQ(model.microbatches_read(), stage == 1 ? 2 : 1);
      },
      policies);
}

TEST_F(StageModelTest, ABackwardThatIsLeftOutHandsZerosOn) {
  Policies policies;
  policies.pipeline.runs_backward = [](int, int, int) { return false; };
  OnEachStage(
      [](const RankEnv& env, int stage, StageModel& model, std::vector<Pass>&) {
        std::vector<std::pair<int, int>> accumulated;
        model.OnAccumulated(
            [&](int chunk, int microbatch) { accumulated.emplace_back(chunk, microbatch); });
        model.Forward(0, 1, Tensor());
        const Tensor dinput = model.Backward(0, 1, Numbers(HiddenShape(env), 5));
        EXPECT_EQ(dinput.defined(), stage == 1) << "the embedding has no input";
        if (dinput.defined()) {
          EXPECT_THAT(dinput.ToVector<double>(), Each(0.0));
        }
        EXPECT_THAT(accumulated, ElementsAre(std::pair(0, 1)));
      },
      policies);
}

// What a message is, both ends say alike.
TEST_F(StageModelTest, BothEndsOfAMessageGiveItOneSite) {
  ScheduleConfig schedule_config = ScheduleConfigOf(config_);
  const Schedule schedule = MakeSchedule(schedule_config);
  using Key = std::tuple<int, int, int>;  // data-parallel rank, receiving stage, tag
  std::map<Key, std::vector<std::string>> sites;
  OnEachStage([&](const RankEnv& env, int stage, StageModel& model, std::vector<Pass>&) {
    const int dp_rank = env.mesh().CoordinateOf(env.global_rank(), "dp");
    for (const Operation& operation : schedule.stages[static_cast<size_t>(stage)]) {
      if (IsCompute(operation.kind)) continue;
      const int receiver = IsSend(operation.kind) ? operation.peer_stage : stage;
      sites[{dp_rank, receiver, MessageTag(schedule_config, stage, operation)}].push_back(
          ToString(model.SiteOf(operation)));
    }
  });
  EXPECT_EQ(sites.size(), 2u * 2u * 3u * 4u);  // ranks, directions, borders, microbatches
  for (const auto& [key, both] : sites) {
    ASSERT_EQ(both.size(), 2u);
    EXPECT_EQ(both[0], both[1]);
  }
}

}  // namespace
}  // namespace plumbline
