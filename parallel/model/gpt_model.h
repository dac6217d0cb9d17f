// A GPT, or the part of one that a pipeline stage holds.
//
// With tied embeddings a stage that has the loss and not the embedding holds a copy of the word
// table (Parameter::tied_copy).
//
// Shapes:   tokens i64 [B, S] (pre_process) or hidden states [S, B, H] in; per-token losses [S, B]
//           (post_process) or hidden states out. Hidden states are [S/tp, B, H] with sequence
//           parallelism.
// Numerics: docs/numerics.md. Parameters start from the ParameterSource by global index.
// Source:   Megatron-Core models/gpt/gpt_model.py.
#ifndef PLUMBLINE_PARALLEL_MODEL_GPT_MODEL_H_
#define PLUMBLINE_PARALLEL_MODEL_GPT_MODEL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "parallel/model/language_model_embedding.h"
#include "parallel/model/norm.h"
#include "parallel/model/stage_spec.h"
#include "parallel/model/transformer_layer.h"
#include "parallel/tensor/unit_hooks.h"
#include "parallel/tensor/vocab_parallel_cross_entropy.h"

namespace plumbline {

class GptModel {
 public:
  struct Saved {
    std::vector<TransformerLayer::Saved> layers;  // empty with recomputation
    std::vector<Tensor> layer_inputs;             // empty without
    Norm::Saved final_layernorm;
    ColumnParallelLinear::Saved output_layer;
    VocabParallelCrossEntropy::Saved cross_entropy;
  };

  GptModel(const RankEnv& env, const StageSpec& stage);
  ~GptModel();
  GptModel(const GptModel&) = delete;
  GptModel& operator=(const GptModel&) = delete;

  // `hidden` is undefined with pre_process.
  Tensor Forward(const Pass& pass, const Tensor& hidden, Saved& saved) const;
  // The gradient of `hidden`; undefined with pre_process. With recomputation each layer runs
  // forward once more before its backward, in phase `recompute`.
  Tensor Backward(const Pass& pass, const Tensor& dout, const Saved& saved);

  // In the order of docs/sites.md. A tied weight comes once.
  const std::vector<Parameter*>& parameters() const { return parameters_; }
  // The same by unit: embedding, each layer, head, as far as the stage has them. A tied weight
  // comes with both that use it.
  const std::vector<std::vector<Parameter*>>& units() const { return units_; }
  // Called around each unit from now on; outlives the model. nullptr: nobody.
  void SetHooks(UnitHooks* hooks) { hooks_ = hooks; }

 private:
  class Head;

  int FirstLayerUnit() const { return embedding_ ? 1 : 0; }
  int HeadUnit() const { return FirstLayerUnit() + static_cast<int>(layers_.size()); }
  template <class Unit>
  Tensor ForwardUnit(const Pass& pass, int unit, const Unit& forward) const;
  template <class Unit>
  Tensor BackwardUnit(const Pass& pass, int unit, const Unit& backward) const;
  Tensor ForwardLayers(const Pass& pass, Tensor x, Saved& saved) const;
  Tensor BackwardLayers(const Pass& pass, Tensor dx, const Saved& saved);

  const RankEnv& env_;
  QkvLayout qkv_layout_;
  bool recomputes_;
  std::optional<Tap> input_;  // of a stage that shows what it receives
  std::unique_ptr<LanguageModelEmbedding> embedding_;
  std::vector<std::unique_ptr<TransformerLayer>> layers_;
  std::unique_ptr<Head> head_;
  std::vector<Parameter*> parameters_;
  std::vector<std::vector<Parameter*>> units_;
  UnitHooks* hooks_ = nullptr;
};

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_MODEL_GPT_MODEL_H_
