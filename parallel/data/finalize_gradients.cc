#include "parallel/data/finalize_gradients.h"

#include "kernels/elementwise.h"
#include "parallel/sequence/replicated_gradients.h"

namespace plumbline {
namespace {

void SumCopiedRows(const RankEnv& env, int64_t step, std::span<Parameter* const> parameters) {
  for (Parameter* parameter : parameters) {
    if (!parameter->replicated_rows) continue;
    Tensor copies = parameter->OwnedGradFrom(parameter->replicated_rows->first_row);
    if (copies.elements() == 0) continue;  // as on all holders
    env.comm().AllReduce(copies, ReduceOp::kSum, parameter->replicated_rows->group,
                         parameter->At(step, Phase::kFinalize, Quantity::kMainGrad));
  }
}

}  // namespace

void FinalizeGradients(const RankEnv& env, int64_t step, std::span<Parameter* const> parameters,
                       const std::function<void()>& reduce, TiedEmbeddings& tied_embeddings,
                       const Tensor& label_count) {
  tied_embeddings.Join();
  reduce();
  SumSequenceParallelGradients(env, step, parameters);
  tied_embeddings.Finalize(step);
  SumCopiedRows(env, step, parameters);
  if (!label_count.defined()) return;
  for (Parameter* parameter : parameters) {
    Tensor gradient = parameter->owned_grad();
    DivideInto(env.context(), gradient, label_count);
  }
}

}  // namespace plumbline
