#include "parallel/model/language_model_embedding.h"

#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "parallel/sequence/regions.h"

namespace plumbline {
namespace {

bool HasPositions(const RankEnv& env) {
  return env.model().position_embedding == PositionEmbedding::kLearnedAbsolute;
}

}  // namespace

LanguageModelEmbedding::LanguageModelEmbedding(const RankEnv& env, const ActivationLayouts& layouts)
    : env_(env),
      word_embeddings_(env, "embedding.word_embeddings", env.model().padded_vocab_size,
                       env.model().hidden_size, /*reduce_scatter=*/!HasPositions(env)),
      words_tap_(-1, Named(word_embeddings_.scatters() ? layouts.hidden : layouts.whole_hidden,
                           "embedding.word_embeddings")),
      output_(-1, Named(layouts.hidden, "embedding")),
      dropout_(env, "embedding.dropout") {
  if (!HasPositions(env)) return;
  position_weight_ =
      MakeParameter(env, -1, "embedding.position_embeddings.weight",
                    {env.model().max_position_embeddings, env.model().hidden_size}, {});
}

Tensor LanguageModelEmbedding::Forward(const Pass& pass) const {
  const Context& context = env_.context();
  const Batch& batch = pass.data->batch;
  Tensor x = word_embeddings_.Forward(pass, batch.tokens);
  words_tap_.ShowValue(env_, pass, x);
  if (position_weight_) {
    x = Add(context, x, EmbeddingForward(context, batch.position_ids, position_weight_->value, 0));
    if (env_.sequence_parallel()) x = ScatterSequence(env_, x);
  }
  x = dropout_.Forward(pass, x);
  output_.ShowValue(env_, pass, x);
  return x;
}

void LanguageModelEmbedding::Backward(const Pass& pass, const Tensor& dy) {
  const Context& context = env_.context();
  const Batch& batch = pass.data->batch;
  output_.ShowGradient(env_, pass, dy);
  Tensor dx = dropout_.Backward(pass, dy);
  if (position_weight_) {
    if (env_.sequence_parallel()) {
      dx = GatherSequence(env_, dx, output_.At(pass, Quantity::kGradient));
    }
    AddNowOrLater(pass, [this, pass, &context, dx, positions = batch.position_ids] {
      position_weight_->AddGradient(
          env_, pass, EmbeddingBackward(context, dx, positions, position_weight_->value.dim(0), 0));
    });
  }
  words_tap_.ShowGradient(env_, pass, dx);
  word_embeddings_.Backward(pass, dx, batch.tokens);
}

void LanguageModelEmbedding::AppendParameters(std::vector<Parameter*>& parameters) {
  word_embeddings_.AppendParameters(parameters);
  if (position_weight_) parameters.push_back(&*position_weight_);
}

}  // namespace plumbline
