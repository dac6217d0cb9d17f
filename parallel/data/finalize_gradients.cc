#include "parallel/data/finalize_gradients.h"

#include "kernels/elementwise.h"
#include "parallel/data/data_parallel.h"
#include "parallel/sequence/replicated_gradients.h"

namespace plumbline {
namespace {

void SumCopiedRows(const RankEnv& env, int64_t step, std::span<Parameter* const> parameters) {
  for (Parameter* parameter : parameters) {
    if (!parameter->replicated_rows) continue;
    Tensor& gradient = parameter->main_grad;
    // Rows are the first axis, so that the slice is contiguous and the sum lands in place.
    Tensor copies = gradient.Slice(0, parameter->replicated_rows->first_row, gradient.dim(0));
    env.comm().AllReduce(copies, ReduceOp::kSum, parameter->replicated_rows->group,
                         parameter->At(step, Phase::kFinalize, Quantity::kMainGrad));
  }
}

}  // namespace

void FinalizeGradients(const RankEnv& env, int64_t step, std::span<Parameter* const> parameters,
                       TiedEmbeddings& tied_embeddings, const Tensor& label_count) {
  tied_embeddings.Join();
  if (ReducesAfterLastMicrobatch(env)) ReduceOverDataParallel(env, step, parameters);
  SumSequenceParallelGradients(env, step, parameters);
  tied_embeddings.Finalize(step);
  SumCopiedRows(env, step, parameters);
  if (!label_count.defined()) return;
  for (Parameter* parameter : parameters) {
    DivideInto(env.context(), parameter->main_grad, label_count);
  }
}

}  // namespace plumbline
