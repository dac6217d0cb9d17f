#include "oracle/parameters.h"

namespace plumbline {
namespace {

class SpecList {
 public:
  explicit SpecList(const TransformerConfig& config)
      : norm_bias_(config.normalization == Normalization::kLayerNorm),
        hidden_(config.hidden_size) {}

  void Matrix(const std::string& name, int64_t rows, int64_t columns, int32_t layer = -1) {
    specs_.push_back({name + ".weight", {rows, columns}, layer});
  }
  void Linear(const std::string& name, int64_t rows, int64_t columns, bool bias, int32_t layer) {
    Matrix(name, rows, columns, layer);
    if (bias) specs_.push_back({name + ".bias", {rows}, layer});
  }
  void Norm(const std::string& name, int32_t layer = -1) {
    specs_.push_back({name + ".weight", {hidden_}, layer});
    if (norm_bias_) specs_.push_back({name + ".bias", {hidden_}, layer});
  }
  std::vector<ParameterSpec> Take() { return std::move(specs_); }

 private:
  bool norm_bias_;
  int64_t hidden_;
  std::vector<ParameterSpec> specs_;
};

}  // namespace

std::vector<ParameterSpec> ParameterSpecs(const TransformerConfig& config) {
  const int64_t hidden = config.hidden_size;
  const bool bias = config.add_bias_linear;
  SpecList list(config);
  list.Matrix("embedding.word_embeddings", config.padded_vocab_size, hidden);
  if (config.position_embedding == PositionEmbedding::kLearnedAbsolute) {
    list.Matrix("embedding.position_embeddings", config.max_position_embeddings, hidden);
  }
  for (int32_t layer = 0; layer < config.num_layers; ++layer) {
    const std::string prefix = "decoder.layers." + std::to_string(layer) + ".";
    list.Norm(prefix + "input_layernorm", layer);
    list.Linear(prefix + "self_attention.linear_qkv", config.qkv_size(), hidden, config.qkv_bias(),
                layer);
    list.Linear(prefix + "self_attention.linear_proj", hidden, config.query_size(), bias, layer);
    list.Norm(prefix + "pre_mlp_layernorm", layer);
    list.Linear(prefix + "mlp.linear_fc1", config.fc1_size(), hidden, bias, layer);
    list.Linear(prefix + "mlp.linear_fc2", hidden, config.ffn_hidden_size, bias, layer);
  }
  list.Norm("decoder.final_layernorm");
  if (!config.tied_embeddings) list.Matrix("output_layer", config.padded_vocab_size, hidden);
  return list.Take();
}

}  // namespace plumbline
