#include "parallel/data/data_parallel.h"

namespace plumbline {
namespace {

int AfterMicrobatch(const RankEnv& env) {
  return env.policies().data_parallel.after_microbatch(
      static_cast<int>(env.config().num_microbatches()));
}

}  // namespace

bool ReducesEarly(const RankEnv& env, int microbatch) {
  return microbatch == AfterMicrobatch(env) && !ReducesAfterLastMicrobatch(env);
}

bool ReducesAfterLastMicrobatch(const RankEnv& env) {
  return AfterMicrobatch(env) + 1 >= env.config().num_microbatches();
}

void ReduceOverDataParallel(const RankEnv& env, int64_t step,
                            std::span<Parameter* const> parameters) {
  const Policies::DataParallel& policy = env.policies().data_parallel;
  const Group& group = env.GroupOf(policy.group_axes);
  if (group.size() == 1) return;
  const ReduceOp op = env.config().train.calculate_per_token_loss ? policy.reduce_op_per_token
                                                                  : policy.reduce_op_per_microbatch;
  for (Parameter* parameter : parameters) {
    env.comm().AllReduce(parameter->main_grad, op, group,
                         parameter->At(step, Phase::kFinalize, Quantity::kMainGrad));
  }
}

}  // namespace plumbline
