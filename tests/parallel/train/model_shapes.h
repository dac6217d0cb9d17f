// Models that hide nothing: biases, uneven vocabularies, fewer groups than heads, masks, dropout,
// packed documents.
#ifndef PLUMBLINE_TESTS_PARALLEL_TRAIN_MODEL_SHAPES_H_
#define PLUMBLINE_TESTS_PARALLEL_TRAIN_MODEL_SHAPES_H_

#include <string>
#include <vector>

#include "base/config.h"

namespace plumbline {

struct NamedConfig {
  std::string name;
  RunConfig config;
};

// Each runs on 1, 2, 4 and 8 tensor-parallel ranks.
inline std::vector<NamedConfig> ModelShapes() {
  RunConfig base;
  base.model.num_layers = 2;
  base.model.hidden_size = 16;
  base.model.ffn_hidden_size = 32;
  base.model.num_attention_heads = 8;
  base.model.num_query_groups = 8;
  base.model.kv_channels = 4;
  base.model.vocab_size = 61;
  base.model.padded_vocab_size = 61;
  base.model.seq_length = 8;
  base.model.max_position_embeddings = 10;
  base.model.init_method_std = 0.2;
  base.train.steps = 3;
  base.train.micro_batch_size = 2;
  base.train.loss_mask_keep = 0.7;

  std::vector<NamedConfig> shapes = {{"gpt2", base}};
  RunConfig gpt2 = base;
  gpt2.model.label_smoothing = 0.1;
  gpt2.model.hidden_dropout = 0.2;
  gpt2.model.attention_dropout = 0.1;
  shapes[0].config = gpt2;

  RunConfig llama = base;
  llama.model.normalization = Normalization::kRmsNorm;
  llama.model.activation = Activation::kSwiglu;
  llama.model.add_bias_linear = false;
  llama.model.tied_embeddings = false;
  llama.model.position_embedding = PositionEmbedding::kRope;
  llama.model.num_query_groups = 2;
  llama.train.packed_documents = true;
  llama.train.calculate_per_token_loss = true;
  shapes.push_back({"llama", llama});

  RunConfig qwen = llama;
  qwen.model.add_qkv_bias = true;
  qwen.model.num_query_groups = 4;
  qwen.model.rotary_interleaved = true;
  qwen.model.rotary_percent = 0.5;
  qwen.model.hidden_dropout = 0.1;
  qwen.model.tied_embeddings = true;
  qwen.train.packed_documents = false;
  qwen.train.calculate_per_token_loss = false;
  qwen.train.clip_grad = 0;
  shapes.push_back({"qwen", qwen});

  RunConfig mqa = base;
  mqa.model.num_query_groups = 1;
  mqa.model.activation = Activation::kSquaredRelu;
  mqa.model.position_embedding = PositionEmbedding::kRope;
  mqa.train.optimizer = OptimizerKind::kSgd;
  mqa.train.packed_documents = true;
  mqa.train.clip_grad = 0.1;
  shapes.push_back({"mqa", mqa});

  RunConfig erf = base;
  erf.model.activation = Activation::kGeluErf;
  erf.model.num_query_groups = 2;
  erf.model.position_embedding = PositionEmbedding::kNone;
  erf.model.tied_embeddings = false;
  erf.model.attention_dropout = 0.2;
  erf.train.optimizer = OptimizerKind::kSgd;
  erf.train.sgd_momentum = 0;
  erf.train.calculate_per_token_loss = true;
  shapes.push_back({"erf", erf});
  return shapes;
}

}  // namespace plumbline

#endif  // PLUMBLINE_TESTS_PARALLEL_TRAIN_MODEL_SHAPES_H_
