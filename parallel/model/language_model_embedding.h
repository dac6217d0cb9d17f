// Word embedding plus learned positions, with dropout: the model's first hidden state.
//
// Shapes:   tokens i64 [B, S] -> [S, B, H] ([S/tp, B, H] with sequence parallelism).
// Comm:     without learned positions the word embedding's sum over tp is reduce-scattered; with
//           them it is all-reduced, positions are added to the whole, and each rank keeps its rows.
//           Backward the other way round.
// Source:   Megatron-Core models/common/embeddings/language_model_embedding.py.
#ifndef PLUMBLINE_PARALLEL_MODEL_LANGUAGE_MODEL_EMBEDDING_H_
#define PLUMBLINE_PARALLEL_MODEL_LANGUAGE_MODEL_EMBEDDING_H_

#include <optional>
#include <vector>

#include "parallel/model/activation_layouts.h"
#include "parallel/model/hidden_dropout.h"
#include "parallel/tensor/tap.h"
#include "parallel/tensor/vocab_parallel_embedding.h"

namespace plumbline {

class LanguageModelEmbedding {
 public:
  LanguageModelEmbedding(const RankEnv& env, const ActivationLayouts& layouts);

  Tensor Forward(const Pass& pass) const;
  void Backward(const Pass& pass, const Tensor& dy);

  void AppendParameters(std::vector<Parameter*>& parameters);
  Parameter& word_weight() { return word_embeddings_.weight(); }

 private:
  const RankEnv& env_;
  VocabParallelEmbedding word_embeddings_;
  std::optional<Parameter> position_weight_;
  Tap words_tap_;
  Tap output_;
  HiddenDropout dropout_;
};

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_MODEL_LANGUAGE_MODEL_EMBEDDING_H_
