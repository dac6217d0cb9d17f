#include "parallel/model/stage_parameters.h"

#include <utility>

namespace plumbline {
namespace {

class List {
 public:
  explicit List(const RunConfig& config) : model_(config.model), parallel_(config.parallel) {}

  void Embedding(bool shared) {
    unit_ = 0;
    WordTable("embedding.word_embeddings", shared);
    if (model_.position_embedding != PositionEmbedding::kLearnedAbsolute) return;
    Add("embedding.position_embeddings.weight",
        model_.max_position_embeddings * model_.hidden_size);
  }

  void Layer(int32_t layer) {
    unit_ = 1 + layer;
    layer_ = layer;
    const std::string prefix = "decoder.layers." + std::to_string(layer) + ".";
    const int64_t tp = parallel_.tp;
    Norm(prefix + "input_layernorm");
    Linear(prefix + "self_attention.linear_qkv", QkvRows(), model_.hidden_size, model_.qkv_bias());
    Linear(prefix + "self_attention.linear_proj", model_.hidden_size, model_.query_size() / tp,
           model_.add_bias_linear);
    Norm(prefix + "pre_mlp_layernorm");
    Linear(prefix + "mlp.linear_fc1", model_.fc1_size() / tp, model_.hidden_size,
           model_.add_bias_linear);
    Linear(prefix + "mlp.linear_fc2", model_.hidden_size, model_.ffn_hidden_size / tp,
           model_.add_bias_linear);
    layer_ = -1;
  }

  void Head(bool embedding_is_here) {
    unit_ = 1 + static_cast<int>(model_.num_layers);
    Norm("decoder.final_layernorm");
    if (!model_.tied_embeddings) {
      WordTable("output_layer", false);
    } else if (!embedding_is_here) {
      WordTable("embedding.word_embeddings", true);
    }
  }

  std::vector<StageParameter> Take() { return std::move(list_); }

 private:
  void Add(std::string name, int64_t elements, bool shared = false) {
    list_.push_back({std::move(name), layer_, unit_, elements, shared});
  }
  void Norm(const std::string& name) {
    Add(name + ".weight", model_.hidden_size);
    if (model_.normalization == Normalization::kLayerNorm) Add(name + ".bias", model_.hidden_size);
  }
  void Linear(const std::string& name, int64_t rows, int64_t columns, bool bias) {
    Add(name + ".weight", rows * columns);
    if (bias) Add(name + ".bias", rows);
  }
  void WordTable(const std::string& name, bool shared) {
    const int64_t rows = (model_.padded_vocab_size + parallel_.tp - 1) / parallel_.tp;
    Add(name + ".weight", rows * model_.hidden_size, shared);
  }
  // Of one tensor-parallel rank.
  int64_t QkvRows() const {
    const bool copies =
        model_.num_query_groups < parallel_.tp && parallel_.gqa_policy == GqaPolicy::kReplicateKv;
    if (!copies) return model_.qkv_size() / parallel_.tp;
    return (model_.num_attention_heads / parallel_.tp + 2) * model_.kv_channels;
  }

  const TransformerConfig& model_;
  const ParallelConfig& parallel_;
  int32_t layer_ = -1;
  int unit_ = 0;
  std::vector<StageParameter> list_;
};

}  // namespace

std::vector<StageParameter> StageParameters(const RunConfig& config, const StageSpec& stage) {
  List list(config);
  if (stage.pre_process) list.Embedding(config.model.tied_embeddings && !stage.post_process);
  for (int32_t layer : stage.layers) list.Layer(layer);
  if (stage.post_process) list.Head(stage.pre_process);
  return list.Take();
}

}  // namespace plumbline
