#include "parallel/model/gpt_model.h"

#include <utility>

namespace plumbline {
namespace {

constexpr const char* kWordTable = "embedding.word_embeddings";

// `name` is that of the weight's module: the output layer, or the embedding whose copy it is.
ColumnParallelLinear::Options OutputOptions(const RankEnv& env, const char* name) {
  return {.layer = -1,
          .name = name,
          .input_tensor = "decoder.final_layernorm",
          .input_size = env.model().hidden_size,
          .output_size = env.model().padded_vocab_size,
          .cut = PaddedBlockCut(),
          .bias = false};
}

VocabParallelCrossEntropy::Options LossOptions(const RankEnv& env, int64_t classes_per_rank) {
  const TransformerConfig& model = env.model();
  const bool masked = model.vocab_padding == VocabPadding::kMasked;
  return {.logits_name = "output_layer",
          .loss_name = "loss_per_token",
          .classes_per_rank = classes_per_rank,
          .valid_classes = masked ? model.vocab_size : model.padded_vocab_size,
          .label_smoothing = model.label_smoothing};
}

}  // namespace

// Final norm, output layer and cross entropy.
class GptModel::Head {
 public:
  // `tied_weight` is the word table, or nullptr when it is not on this stage.
  Head(const RankEnv& env, const ActivationLayouts& layouts, Parameter* tied_weight)
      : env_(env),
        final_layernorm_(env, layouts, -1, "decoder.final_layernorm"),
        output_layer_(
            tied_weight != nullptr
                ? std::make_unique<ColumnParallelLinear>(env, OutputOptions(env, kWordTable),
                                                         *tied_weight)
                : std::make_unique<ColumnParallelLinear>(
                      env, OutputOptions(
                               env, env.model().tied_embeddings ? kWordTable : "output_layer"))),
        cross_entropy_(env, LossOptions(env, output_layer_->weight().value.dim(0))),
        logits_(-1, Named(layouts.logits, "output_layer")),
        loss_per_token_(-1, Named(layouts.tokens, "loss_per_token")) {
    if (!env.model().tied_embeddings) return;
    output_layer_->weight().tied_embedding = true;
    output_layer_->weight().tied_copy = tied_weight == nullptr;
  }

  Tensor Forward(const Pass& pass, const Tensor& hidden, Saved& saved) const {
    const Tensor x = final_layernorm_.Forward(pass, hidden, saved.final_layernorm);
    const Tensor logits = output_layer_->Forward(pass, x, saved.output_layer);
    logits_.ShowValue(env_, pass, logits);
    const Tensor losses =
        cross_entropy_.Forward(pass, logits, pass.data->targets, saved.cross_entropy)
            .View({logits.dim(0), logits.dim(1)});
    loss_per_token_.ShowValue(env_, pass, losses);
    return losses;
  }

  Tensor Backward(const Pass& pass, const Tensor& dlosses, const Saved& saved) {
    const Tensor dflat =
        cross_entropy_.Backward(dlosses.View({-1}), pass.data->targets, saved.cross_entropy);
    const Tensor dlogits = dflat.View({dlosses.dim(0), dlosses.dim(1), -1});
    logits_.ShowGradient(env_, pass, dlogits);
    const Tensor dx = output_layer_->Backward(pass, dlogits, saved.output_layer);
    return final_layernorm_.Backward(pass, dx, saved.final_layernorm);
  }

  void AppendParameters(std::vector<Parameter*>& parameters) {
    final_layernorm_.AppendParameters(parameters);
    output_layer_->AppendParameters(parameters);
  }

 private:
  const RankEnv& env_;
  Norm final_layernorm_;
  std::unique_ptr<ColumnParallelLinear> output_layer_;
  VocabParallelCrossEntropy cross_entropy_;
  Tap logits_;
  Tap loss_per_token_;
};

GptModel::GptModel(const RankEnv& env, const StageSpec& stage)
    : env_(env),
      qkv_layout_(env),
      recomputes_(env.config().parallel.recompute_granularity == RecomputeGranularity::kFull) {
  const ActivationLayouts layouts(env, qkv_layout_);
  if (!stage.input_tensor.empty() && stage.shows_input) {
    input_.emplace(-1, Named(layouts.hidden, stage.input_tensor));
  }
  if (stage.pre_process) embedding_ = std::make_unique<LanguageModelEmbedding>(env, layouts);
  for (int32_t layer : stage.layers) {
    layers_.push_back(std::make_unique<TransformerLayer>(env, layouts, qkv_layout_, layer));
  }
  const bool tied = env.model().tied_embeddings;
  if (tied && embedding_) embedding_->word_weight().tied_embedding = true;
  if (stage.post_process) {
    head_ = std::make_unique<Head>(env, layouts,
                                   tied && embedding_ ? &embedding_->word_weight() : nullptr);
  }
  if (embedding_) embedding_->AppendParameters(units_.emplace_back());
  for (auto& layer : layers_) layer->AppendParameters(units_.emplace_back());
  if (head_) head_->AppendParameters(units_.emplace_back());
  for (const std::vector<Parameter*>& unit : units_) {
    parameters_.insert(parameters_.end(), unit.begin(), unit.end());
  }
  if (!tied || !embedding_ || !head_) return;
  embedding_->word_weight().gradients_per_microbatch = 2;
  units_.back().push_back(&embedding_->word_weight());
}

GptModel::~GptModel() = default;

template <class Unit>
Tensor GptModel::ForwardUnit(const Pass& pass, int unit, const Unit& forward) const {
  if (hooks_ == nullptr) return forward();
  hooks_->BeforeForward(pass, unit);
  Tensor output = forward();
  hooks_->AfterForward(pass, unit);
  return output;
}

template <class Unit>
Tensor GptModel::BackwardUnit(const Pass& pass, int unit, const Unit& backward) const {
  if (hooks_ == nullptr) return backward();
  hooks_->BeforeBackward(pass, unit);
  Tensor dinput = backward();
  hooks_->AfterBackward(pass, unit);
  return dinput;
}

Tensor GptModel::Forward(const Pass& pass, const Tensor& hidden, Saved& saved) const {
  if (input_) input_->ShowValue(env_, pass, hidden);
  Tensor x = hidden;
  if (embedding_) x = ForwardUnit(pass, 0, [&] { return embedding_->Forward(pass); });
  x = ForwardLayers(pass, std::move(x), saved);
  if (!head_) return x;
  return ForwardUnit(pass, HeadUnit(), [&] { return head_->Forward(pass, x, saved); });
}

Tensor GptModel::ForwardLayers(const Pass& pass, Tensor x, Saved& saved) const {
  if (!recomputes_) saved.layers.resize(layers_.size());
  for (size_t i = 0; i < layers_.size(); ++i) {
    TransformerLayer::Saved dropped;
    if (recomputes_) saved.layer_inputs.push_back(x);
    x = ForwardUnit(pass, FirstLayerUnit() + static_cast<int>(i), [&] {
      return layers_[i]->Forward(pass, x, recomputes_ ? dropped : saved.layers[i]);
    });
  }
  return x;
}

Tensor GptModel::Backward(const Pass& pass, const Tensor& dout, const Saved& saved) {
  Tensor dx = dout;
  if (head_) {
    dx = BackwardUnit(pass, HeadUnit(), [&] { return head_->Backward(pass, dout, saved); });
  }
  dx = BackwardLayers(pass, std::move(dx), saved);
  if (input_) input_->ShowGradient(env_, pass, dx);
  if (!embedding_) return dx;
  return BackwardUnit(pass, 0, [&] {
    embedding_->Backward(pass, dx);
    return Tensor();
  });
}

Tensor GptModel::BackwardLayers(const Pass& pass, Tensor dx, const Saved& saved) {
  Pass backward = pass;
  if (recomputes_) backward.mask_step = env_.policies().pipeline.recompute_mask_step(pass.step);
  Pass recompute = backward;
  recompute.phase = Phase::kRecompute;
  for (size_t i = layers_.size(); i-- > 0;) {
    dx = BackwardUnit(pass, FirstLayerUnit() + static_cast<int>(i), [&] {
      TransformerLayer::Saved again;
      if (recomputes_) layers_[i]->Forward(recompute, saved.layer_inputs[i], again);
      return layers_[i]->Backward(backward, dx, recomputes_ ? again : saved.layers[i]);
    });
  }
  return dx;
}

}  // namespace plumbline
