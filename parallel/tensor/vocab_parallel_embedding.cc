#include "parallel/tensor/vocab_parallel_embedding.h"

#include <utility>

#include "kernels/embedding.h"
#include "parallel/sequence/regions.h"

namespace plumbline {

VocabParallelEmbedding::VocabParallelEmbedding(const RankEnv& env, const std::string& name,
                                               int64_t vocab_size, int64_t hidden_size,
                                               bool reduce_scatter)
    : env_(env),
      site_(MakeSite(-1, name)),
      scatters_(reduce_scatter && env.sequence_parallel()),
      weight_(MakeParameter(env, -1, name + ".weight", {vocab_size, hidden_size},
                            {PaddedBlockCut()(0)})),
      first_row_(env.policies().first_vocab_row(name, env.tp_rank(), weight_.value.dim(0))) {}

Tensor VocabParallelEmbedding::Forward(const Pass& pass, const Tensor& tokens) const {
  Tensor partial = EmbeddingForward(env_.context(), tokens, weight_.value, first_row_);
  const Site site = SiteAt(site_, pass, Quantity::kValue);
  return scatters_ ? ReduceScatterSequence(env_, partial, site)
                   : SumOverTp(env_, std::move(partial), site);
}

void VocabParallelEmbedding::Backward(const Pass& pass, const Tensor& dy, const Tensor& tokens) {
  const Tensor whole_dy =
      scatters_ ? GatherSequence(env_, dy, SiteAt(site_, pass, Quantity::kGradient)) : dy;
  AddNowOrLater(pass, [this, pass, whole_dy, tokens] {
    weight_.AddGradient(env_, pass, EmbeddingBackward(env_.context(), whole_dy, tokens,
                                                          weight_.value.dim(0), first_row_));
  });
}

}  // namespace plumbline
