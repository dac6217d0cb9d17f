#include "parallel/data/tied_embeddings.h"

#include "kernels/elementwise.h"

namespace plumbline {

TiedEmbeddings::TiedEmbeddings(const RankEnv& env, std::span<Parameter* const> parameters)
    : env_(env),
      after_microbatch_(env.policies().tied_embedding.after_microbatch(
          static_cast<int>(env.config().num_microbatches()))) {
  if (env.mesh().extent("pp") == 1) return;
  for (Parameter* parameter : parameters) {
    if (parameter->tied_embedding) table_ = parameter;
  }
}

Site TiedEmbeddings::SiteOf(int64_t step) const {
  return table_->At(step, Phase::kFinalize, Quantity::kMainGrad);
}

void TiedEmbeddings::Accumulated(int64_t step, int microbatch) {
  const bool last = microbatch + 1 == env_.config().num_microbatches();
  if (table_ == nullptr || last || microbatch != after_microbatch_) return;
  // The other stage gets here at another time: nobody may wait yet.
  early_ = table_->main_grad.Clone(env_.context());
  table_->main_grad.FillZero();
  early_work_ =
      env_.comm().AllReduceAsync(early_, ReduceOp::kSum, env_.GroupOf("embedding"), SiteOf(step));
}

void TiedEmbeddings::Join() {
  summed_early_ = early_work_ != nullptr;
  if (!summed_early_) return;
  early_work_->Wait();
  early_work_.reset();
  AddInto(env_.context(), table_->main_grad, early_);
}

void TiedEmbeddings::Finalize(int64_t step) {
  if (table_ == nullptr || summed_early_) return;
  for (int i = 0; i < env_.policies().tied_embedding.reductions; ++i) {
    Tensor gradient = table_->owned_grad();
    env_.comm().AllReduce(gradient, ReduceOp::kSum, env_.GroupOf("embedding"), SiteOf(step));
  }
}

}  // namespace plumbline
