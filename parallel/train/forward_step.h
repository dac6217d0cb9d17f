// What a training step does with a microbatch on one stage, as Megatron's forward_step_func says
// it: a forward that reads its data itself, and a function that makes a loss of the last stage's
// output.
//
// Source:   Megatron-LM pretrain_gpt.py, forward_step; Megatron-Core
// pipeline_parallel/schedules.py.
#ifndef PLUMBLINE_PARALLEL_TRAIN_FORWARD_STEP_H_
#define PLUMBLINE_PARALLEL_TRAIN_FORWARD_STEP_H_

#include <functional>

#include "parallel/model/gpt_model.h"
#include "parallel/train/data_iterator.h"

namespace plumbline {

struct MicrobatchResult {
  Tensor loss;     // 0-d
  Tensor labels;   // 0-d: how many count
  Tensor doutput;  // of the step's loss, less the factors that finalize applies
};
using LossFunc = std::function<MicrobatchResult(const Tensor& output)>;

// What a forward leaves for its backward.
struct ForwardState {
  Microbatch data;
  GptModel::Saved saved;
  Tensor doutput;  // on the last stage
};

struct StepOutput {
  Tensor output;
  LossFunc loss_func;  // called on the last stage alone
};

// `pass` lacks its data, which the step reads from `data` into `state`; `input` comes from the
// previous stage.
using ForwardStep =
    std::function<StepOutput(const Pass& pass, DataIterator& data, const GptModel& model,
                             const Tensor& input, ForwardState& state)>;

// A GPT's: the loss of loss.h, shown as `loss`.
ForwardStep GptForwardStep(const RankEnv& env);

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_TRAIN_FORWARD_STEP_H_
