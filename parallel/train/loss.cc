#include "parallel/train/loss.h"

#include <algorithm>

#include "kernels/elementwise.h"
#include "kernels/matmul.h"

namespace plumbline {
namespace {

// A microbatch without labels has loss 0.
int64_t OwnDivisor(const Microbatch& microbatch) {
  return std::max<int64_t>(1, microbatch.label_count);
}

void ReduceScalar(const RankEnv& env, Tensor& scalar, ReduceOp op, int64_t step, const char* name) {
  const Group& group = env.GroupOf("dp-cp");
  if (group.size() == 1) return;
  const Pass pass{.step = static_cast<int32_t>(step), .microbatch = -1, .phase = Phase::kFinalize};
  env.comm().AllReduce(scalar, op, group, SiteAt(MakeSite(-1, name), pass, Quantity::kValue));
}

}  // namespace

Tensor MicrobatchLoss(const RankEnv& env, const Microbatch& microbatch, const Tensor& losses) {
  // The masked sum is the inner product of losses and mask.
  Tensor loss =
      MatmulNT(env.context(), losses.View({1, -1}), microbatch.loss_mask.View({1, -1})).View({});
  if (!env.config().train.calculate_per_token_loss) {
    DivideInto(env.context(), loss, OwnDivisor(microbatch));
  }
  return loss;
}

Tensor MicrobatchLossGradient(const RankEnv& env, const Microbatch& microbatch) {
  const Shape shape = {env.model().seq_length, env.config().train.micro_batch_size};
  Tensor gradient = microbatch.loss_mask.Clone(env.context()).View(shape);
  if (!env.config().train.calculate_per_token_loss) {
    DivideInto(env.context(), gradient,
               env.policies().loss_divisor(env.config().num_microbatches()));
    DivideInto(env.context(), gradient, OwnDivisor(microbatch));
  }
  return gradient;
}

Tensor GlobalLabelCount(const RankEnv& env, int64_t step, Tensor own_count) {
  const Group& pipeline = env.GroupOf("pp");
  if (pipeline.size() > 1) {
    const Pass pass{
        .step = static_cast<int32_t>(step), .microbatch = -1, .phase = Phase::kFinalize};
    env.comm().Broadcast(own_count, pipeline.size() - 1, pipeline,
                         SiteAt(MakeSite(-1, "num_tokens"), pass, Quantity::kValue));
  }
  ReduceScalar(env, own_count, ReduceOp::kSum, step, "num_tokens");
  return own_count;
}

Tensor ReportedLoss(const RankEnv& env, int64_t step, Tensor own_sum, const Tensor& label_count) {
  if (label_count.defined()) {
    ReduceScalar(env, own_sum, ReduceOp::kSum, step, "lm_loss");
    DivideInto(env.context(), own_sum, label_count);
  } else {
    DivideInto(env.context(), own_sum, env.config().num_microbatches());
    ReduceScalar(env, own_sum, ReduceOp::kAvg, step, "lm_loss");
  }
  return own_sum;
}

}  // namespace plumbline
