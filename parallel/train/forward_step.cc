#include "parallel/train/forward_step.h"

#include "kernels/elementwise.h"
#include "parallel/tensor/tap.h"
#include "parallel/train/loss.h"

namespace plumbline {

ForwardStep GptForwardStep(const RankEnv& env) {
  const Tap loss_tap(-1, MakeLayout(env, {"loss", {}, {}}));
  return [&env, loss_tap](const Pass& pass, DataIterator& data, const GptModel& model,
                          const Tensor& input, ForwardState& state) {
    state.data = data.Next();
    Pass with_data = pass;
    with_data.data = &state.data;
    StepOutput result;
    result.output = model.Forward(with_data, input, state.saved);
    result.loss_func = [&env, loss_tap, with_data](const Tensor& output) {
      const Microbatch& microbatch = *with_data.data;
      const Tensor loss = MicrobatchLoss(env, microbatch, output);
      loss_tap.ShowValue(env, with_data, loss);
      return MicrobatchResult{loss, Sum(env.context(), microbatch.loss_mask),
                              MicrobatchLossGradient(env, microbatch)};
    };
    return result;
  };
}

}  // namespace plumbline
