#include "parallel/train/forward_step.h"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <vector>

#include "base/batch.h"
#include "parallel/pipeline/stage_layout.h"
#include "parallel/train/stage_model.h"
#include "tests/parallel/tensor/module_world.h"

namespace plumbline {
namespace {

// Two stages; two data-parallel ranks of three microbatches each.
RunConfig TwoByTwo() {
  RunConfig config = TensorParallelConfig(1, false);
  config.model.num_layers = 2;
  config.parallel.dp = 2;
  config.parallel.pp = 2;
  config.train.global_batch_size = config.train.micro_batch_size * 2 * 3;
  config.train.loss_mask_keep = 0.7;
  return config;
}

double SumOf(const Tensor& tensor) {
  const std::vector<double> values = tensor.ToVector<double>();
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// Runs the step of the rank's first microbatch and hands on what it leaves.
using Check = std::function<void(const RankEnv&, int stage, DataIterator& data,
                                 const StepOutput& step, const ForwardState& state)>;
void RunFirstMicrobatch(const RunConfig& config, const Check& check) {
  const TextBatches batches(config.model, config.train, {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5});
  const StageLayout layout(config);
  OnEachRank(config, [&](const RankEnv& env) {
    const int stage = env.mesh().CoordinateOf(env.global_rank(), "pp");
    const GptModel model(env, layout.At(stage, 0));
    DataIterator data(env, batches, layout.At(stage, 0));
    const ForwardStep forward_step = GptForwardStep(env);
    Pass pass = ForwardPass();
    pass.microbatch = static_cast<int32_t>(GlobalMicrobatch(env, 0));
    ForwardState state;
    const Tensor input = stage == 0 ? Tensor() : Numbers(HiddenShape(env), 7);
    check(env, stage, data, forward_step(pass, data, model, input, state), state);
  });
}

TEST(ForwardStep, ReadsOneBatchItselfAndKeepsItForTheBackward) {
  const RunConfig config = TwoByTwo();
  RunFirstMicrobatch(config, [&](const RankEnv& env, int stage, DataIterator& data,
                                 const StepOutput&, const ForwardState& state) {
    EXPECT_EQ(data.taken(), 1);
    const int64_t dp_rank = env.mesh().CoordinateOf(env.global_rank(), "dp");
    EXPECT_EQ(state.data.batch.samples[0], dp_rank * config.train.micro_batch_size);
    EXPECT_EQ(state.data.batch.tokens.defined(), stage == 0);
    EXPECT_EQ(state.data.batch.labels.defined(), stage == 1);
  });
}

TEST(ForwardStep, AStageHandsOnHiddenStatesAndTheLastLossesOfTokens) {
  const RunConfig config = TwoByTwo();
  RunFirstMicrobatch(config, [&](const RankEnv& env, int stage, DataIterator&,
                                 const StepOutput& step, const ForwardState&) {
    const Shape losses = {config.model.seq_length, config.train.micro_batch_size};
    EXPECT_EQ(step.output.shape(), stage == 0 ? HiddenShape(env) : losses);
  });
}

// The mean of equal losses is the loss, whatever the mask; its gradient adds up to one
// microbatch's share of the step.
TEST(ForwardStep, TheLossIsTheMeanOverTheLabelsThatCount) {
  const RunConfig config = TwoByTwo();
  RunFirstMicrobatch(config, [&](const RankEnv&, int stage, DataIterator&, const StepOutput& step,
                                 const ForwardState& state) {
    if (stage == 0) return;
    Tensor output = Tensor::Zeros(Context{}, DType::kF64, step.output.shape());
    for (int64_t i = 0; i < output.elements(); ++i) output.data<double>()[i] = 2.5;
    const MicrobatchResult result = step.loss_func(output);
    EXPECT_NEAR(SumOf(result.loss), 2.5, 1e-14);
    EXPECT_EQ(SumOf(result.labels), SumOf(state.data.loss_mask));
    EXPECT_LT(SumOf(result.labels), static_cast<double>(output.elements())) << "some are masked";
    EXPECT_NEAR(SumOf(result.doutput), 1.0 / 3, 1e-14);
  });
}

TEST(ForwardStep, PerTokenTheLossIsASumWithoutAnyDivision) {
  RunConfig config = TwoByTwo();
  config.train.calculate_per_token_loss = true;
  RunFirstMicrobatch(config, [&](const RankEnv&, int stage, DataIterator&, const StepOutput& step,
                                 const ForwardState&) {
    if (stage == 0) return;
    Tensor output = Tensor::Zeros(Context{}, DType::kF64, step.output.shape());
    for (int64_t i = 0; i < output.elements(); ++i) output.data<double>()[i] = 0.5;
    const MicrobatchResult result = step.loss_func(output);
    EXPECT_EQ(SumOf(result.loss), 0.5 * SumOf(result.labels));
    EXPECT_EQ(SumOf(result.doutput), SumOf(result.labels));
  });
}

}  // namespace
}  // namespace plumbline
