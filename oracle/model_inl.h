// Definitions of oracle/model.h, for the files that instantiate it.
#ifndef PLUMBLINE_ORACLE_MODEL_INL_H_
#define PLUMBLINE_ORACLE_MODEL_INL_H_

#include <string>
#include <utility>
#include <vector>

#include "oracle/cross_entropy.h"
#include "oracle/dropout.h"
#include "oracle/embedding.h"
#include "oracle/layer.h"
#include "oracle/linear.h"
#include "oracle/model.h"
#include "oracle/norm.h"
#include "oracle/rope.h"

namespace plumbline {

template <class T>
struct Gpt<T>::Saved {
  RotaryTable<T> rotary;
  KeepMask embedding_keep;
  std::vector<LayerSaved<T>> layers;
  NormSaved<T> final_norm;
  Matrix<T> output_input;
  Matrix<T> probabilities;
};

template <class T>
Gpt<T>::Gpt(const TransformerConfig& config)
    : config_(config),
      inverse_frequencies_(InverseFrequencies(config)),
      saved_(std::make_unique<Saved>()) {}

template <class T>
Gpt<T>::~Gpt() = default;

template <class T>
int64_t Gpt<T>::classes() const {
  return config_.vocab_padding == VocabPadding::kMegatron ? config_.padded_vocab_size
                                                          : config_.vocab_size;
}

template <class T>
Matrix<T> Gpt<T>::Forward(const Parameters<T>& parameters, const Microbatch& microbatch,
                          Recorder<T>& recorder) {
  const auto value = [&](const std::string& name, const Matrix<T>& matrix) {
    recorder.Record(Phase::kForward, Quantity::kValue, name, -1, matrix,
                    {microbatch.sequence, microbatch.batch, matrix.cols()});
  };
  saved_->rotary = MakeRotaryTable<T>(microbatch.positions, inverse_frequencies_);
  Matrix<T> x = EmbeddingForward(microbatch.tokens, parameters.word_embeddings);
  value("embedding.word_embeddings", x);
  if (parameters.position_embeddings.size() != 0) {
    x += EmbeddingForward(microbatch.positions, parameters.position_embeddings);
  }
  saved_->embedding_keep = HiddenKeepMask(microbatch.dropout, "embedding.dropout",
                                          config_.hidden_dropout, microbatch.sequence, x.cols());
  ApplyDropout(saved_->embedding_keep, config_.hidden_dropout, x);
  value("embedding", x);

  saved_->layers.resize(parameters.layers.size());
  for (size_t n = 0; n < parameters.layers.size(); ++n) {
    const LayerContext<T> context = {config_, microbatch, saved_->rotary, recorder,
                                     static_cast<int32_t>(n)};
    x = LayerForward(context, x, parameters.layers[n], saved_->layers[n]);
  }

  saved_->output_input =
      NormForward(config_.normalization, x, parameters.final_norm_weight,
                  parameters.final_norm_bias, config_.norm_epsilon, saved_->final_norm);
  value("decoder.final_layernorm", saved_->output_input);
  const Matrix<T> logits = LinearForward(saved_->output_input, parameters.logits_weight(), {});
  value("output_layer", logits);
  Matrix<T> loss = CrossEntropyForward(logits, microbatch.labels, classes(),
                                       config_.label_smoothing, saved_->probabilities);
  recorder.Record(Phase::kForward, Quantity::kValue, "loss_per_token", -1, loss,
                  {microbatch.sequence, microbatch.batch});
  return loss;
}

template <class T>
void Gpt<T>::Backward(const Matrix<T>& dloss, const Parameters<T>& parameters,
                      const Microbatch& microbatch, Parameters<T>& gradients,
                      Recorder<T>& recorder) {
  const auto gradient = [&](const std::string& name, const Matrix<T>& matrix) {
    recorder.Record(Phase::kBackward, Quantity::kGradient, name, -1, matrix,
                    {microbatch.sequence, microbatch.batch, matrix.cols()});
  };
  const Matrix<T> dlogits = CrossEntropyBackward(dloss, saved_->probabilities, microbatch.labels,
                                                 classes(), config_.label_smoothing);
  gradient("output_layer", dlogits);
  Matrix<T> no_bias;
  Matrix<T> dx = LinearBackward(dlogits, saved_->output_input, parameters.logits_weight(),
                                gradients.logits_weight(), no_bias);
  gradient("decoder.final_layernorm", dx);
  dx = NormBackward(config_.normalization, dx, parameters.final_norm_weight, saved_->final_norm,
                    gradients.final_norm_weight, gradients.final_norm_bias);

  for (size_t n = parameters.layers.size(); n-- > 0;) {
    const LayerContext<T> context = {config_, microbatch, saved_->rotary, recorder,
                                     static_cast<int32_t>(n)};
    dx = LayerBackward(context, dx, parameters.layers[n], saved_->layers[n], gradients.layers[n]);
  }

  gradient("embedding", dx);
  ApplyDropout(saved_->embedding_keep, config_.hidden_dropout, dx);
  if (parameters.position_embeddings.size() != 0) {
    EmbeddingBackward(dx, microbatch.positions, gradients.position_embeddings);
  }
  gradient("embedding.word_embeddings", dx);
  EmbeddingBackward(dx, microbatch.tokens, gradients.word_embeddings);
}

}  // namespace plumbline

#endif  // PLUMBLINE_ORACLE_MODEL_INL_H_
