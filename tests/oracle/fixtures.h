// Small models that together have every feature, and data for them.
#ifndef PLUMBLINE_TESTS_ORACLE_FIXTURES_H_
#define PLUMBLINE_TESTS_ORACLE_FIXTURES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/batch.h"
#include "base/config.h"
#include "base/init.h"
#include "base/probe.h"
#include "base/rng.h"

namespace plumbline {

struct ModelCase {
  std::string name;
  TransformerConfig model;
  TrainConfig train;
};

// Bytes without a period.
inline std::vector<uint8_t> RandomText(uint64_t seed) {
  const RandomStream stream = DataStream(seed, "text");
  std::vector<uint8_t> bytes(5000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(stream.Bits(i));
  return bytes;
}

inline ModelCase SmallCase(std::string name) {
  ModelCase c;
  c.name = std::move(name);
  c.model.hidden_size = 16;
  c.model.ffn_hidden_size = 24;
  c.model.num_attention_heads = 4;
  c.model.num_query_groups = 2;
  c.model.kv_channels = 8;
  c.model.vocab_size = 37;
  c.model.padded_vocab_size = 37;
  c.model.seq_length = 11;
  c.model.max_position_embeddings = 13;
  c.model.init_method_std = 0.3;
  c.train.seed = 77;
  c.train.global_batch_size = 6;
  c.train.loss_mask_keep = 0.7;
  return c;
}

inline ModelCase Gpt2Case() {
  ModelCase c = SmallCase("gpt2_dropout");
  c.model.num_query_groups = 4;
  c.model.hidden_dropout = 0.2;
  c.model.attention_dropout = 0.3;
  return c;
}

inline ModelCase LlamaCase() {
  ModelCase c = SmallCase("llama_packed_per_token");
  c.model.normalization = Normalization::kRmsNorm;
  c.model.activation = Activation::kSwiglu;
  c.model.add_bias_linear = false;
  c.model.tied_embeddings = false;
  c.model.position_embedding = PositionEmbedding::kRope;
  c.train.packed_documents = true;
  c.train.calculate_per_token_loss = true;
  return c;
}

inline std::vector<ModelCase> AllCases() {
  std::vector<ModelCase> cases = {Gpt2Case(), LlamaCase()};

  ModelCase mqa = SmallCase("mqa_partial_linear_rope_qkv_bias_smoothing");
  mqa.model.normalization = Normalization::kRmsNorm;
  mqa.model.activation = Activation::kSquaredRelu;
  mqa.model.num_query_groups = 1;
  mqa.model.add_bias_linear = false;
  mqa.model.add_qkv_bias = true;
  mqa.model.position_embedding = PositionEmbedding::kRope;
  mqa.model.rotary_percent = 0.5;
  mqa.model.rope_scaling = RopeScaling::kLinear;
  mqa.model.rope_scaling_factor = 2;
  mqa.model.label_smoothing = 0.1;
  cases.push_back(mqa);

  ModelCase llama3 = SmallCase("interleaved_llama3_rope_packed_dropout_smoothing_per_token");
  llama3.model.activation = Activation::kGeluErf;
  llama3.model.tied_embeddings = false;
  llama3.model.position_embedding = PositionEmbedding::kRope;
  llama3.model.rotary_interleaved = true;
  llama3.model.rotary_base = 500;
  llama3.model.rope_scaling = RopeScaling::kLlama3;
  llama3.model.rope_scaling_factor = 8;
  llama3.model.rope_original_max_position = 256;
  llama3.model.label_smoothing = 0.05;
  llama3.model.hidden_dropout = 0.1;
  llama3.model.attention_dropout = 0.1;
  llama3.train.packed_documents = true;
  llama3.train.calculate_per_token_loss = true;
  cases.push_back(llama3);

  ModelCase megatron = SmallCase("no_positions_megatron_vocabulary");
  megatron.model.position_embedding = PositionEmbedding::kNone;
  megatron.model.vocab_padding = VocabPadding::kMegatron;
  megatron.model.padded_vocab_size = 128;
  megatron.model.label_smoothing = 0.1;
  cases.push_back(megatron);

  ModelCase padded = SmallCase("masked_vocabulary_with_padding_rows_one_layer_packed");
  padded.model.num_layers = 1;
  padded.model.padded_vocab_size = 40;
  padded.model.label_smoothing = 0.1;
  padded.model.tied_embeddings = false;
  padded.train.packed_documents = true;
  cases.push_back(padded);
  return cases;
}

// What a reference recorded, in order.
struct RecordedSite {
  Site site;
  Tensor tensor;  // undefined for a counter
  int64_t counter = 0;
};

class RecordingSink : public ReferenceSink {
 public:
  void Record(const Site& site, Tensor global) override {
    records.push_back({site, std::move(global), 0});
  }
  void RecordCounter(const Site& site, int64_t value) override {
    records.push_back({site, {}, value});
  }
  // The first record of a tensor and quantity in a step and microbatch; nullptr when there is none.
  const RecordedSite* Find(int32_t step, int32_t microbatch, const std::string& tensor,
                           Quantity quantity) const {
    for (const RecordedSite& record : records) {
      if (record.site.step == step && record.site.microbatch == microbatch &&
          record.site.tensor == tensor && record.site.quantity == quantity) {
        return &record;
      }
    }
    return nullptr;
  }

  std::vector<RecordedSite> records;
};

// Batches that a test may change.
class EditedBatches : public BatchSource {
 public:
  EditedBatches(const ModelCase& c, uint64_t seed) : source_(c.model, c.train, RandomText(seed)) {}
  Batch Get(const Context& context, int64_t step, int64_t microbatch) const override {
    Batch batch = source_.Get(context, step, microbatch);
    if (edit) edit(step, microbatch, batch);
    return batch;
  }

  std::function<void(int64_t step, int64_t microbatch, Batch& batch)> edit;

 private:
  TextBatches source_;
};

}  // namespace plumbline

#endif  // PLUMBLINE_TESTS_ORACLE_FIXTURES_H_
