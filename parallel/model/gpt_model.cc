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
  if (embedding_) embedding_->AppendParameters(parameters_);
  for (auto& layer : layers_) layer->AppendParameters(parameters_);
  if (head_) head_->AppendParameters(parameters_);
}

GptModel::~GptModel() = default;

Tensor GptModel::Forward(const Pass& pass, const Tensor& hidden, Saved& saved) const {
  if (input_) input_->ShowValue(env_, pass, hidden);
  const Tensor x = ForwardLayers(pass, embedding_ ? embedding_->Forward(pass) : hidden, saved);
  return head_ ? head_->Forward(pass, x, saved) : x;
}

Tensor GptModel::ForwardLayers(const Pass& pass, Tensor x, Saved& saved) const {
  if (!recomputes_) saved.layers.resize(layers_.size());
  for (size_t i = 0; i < layers_.size(); ++i) {
    TransformerLayer::Saved dropped;
    if (recomputes_) saved.layer_inputs.push_back(x);
    x = layers_[i]->Forward(pass, x, recomputes_ ? dropped : saved.layers[i]);
  }
  return x;
}

Tensor GptModel::Backward(const Pass& pass, const Tensor& dout, const Saved& saved) {
  const Tensor dx = BackwardLayers(pass, head_ ? head_->Backward(pass, dout, saved) : dout, saved);
  if (input_) input_->ShowGradient(env_, pass, dx);
  if (!embedding_) return dx;
  embedding_->Backward(pass, dx);
  return {};
}

Tensor GptModel::BackwardLayers(const Pass& pass, Tensor dx, const Saved& saved) {
  if (!recomputes_) {
    for (size_t i = layers_.size(); i-- > 0;) {
      dx = layers_[i]->Backward(pass, dx, saved.layers[i]);
    }
    return dx;
  }
  Pass backward = pass;
  backward.mask_step = env_.policies().pipeline.recompute_mask_step(pass.step);
  Pass recompute = backward;
  recompute.phase = Phase::kRecompute;
  for (size_t i = layers_.size(); i-- > 0;) {
    TransformerLayer::Saved again;
    layers_[i]->Forward(recompute, saved.layer_inputs[i], again);
    dx = layers_[i]->Backward(backward, dx, again);
  }
  return dx;
}

}  // namespace plumbline
