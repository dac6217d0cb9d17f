#include "parallel/sequence/replicated_gradients.h"

namespace plumbline {

void SumSequenceParallelGradients(const RankEnv& env, int64_t step,
                                  std::span<Parameter* const> parameters) {
  for (Parameter* parameter : parameters) {
    if (!parameter->sequence_parallel) continue;
    if (!env.policies().sum_sequence_parallel_gradient(parameter->name())) continue;
    Tensor gradient = parameter->owned_grad();
    if (gradient.elements() == 0) continue;  // as on all of tp
    env.comm().AllReduce(gradient, ReduceOp::kSum, env.tp(),
                         parameter->At(step, Phase::kFinalize, Quantity::kMainGrad));
  }
}

}  // namespace plumbline
