// What is trained, how, and on which layout: plain data that the reference and the parallel program
// both read.
#ifndef PLUMBLINE_BASE_CONFIG_H_
#define PLUMBLINE_BASE_CONFIG_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/dtype.h"

namespace plumbline {

enum class Normalization : uint8_t { kLayerNorm, kRmsNorm };
enum class Activation : uint8_t { kGeluTanh, kGeluErf, kSquaredRelu, kSwiglu };
enum class PositionEmbedding : uint8_t { kNone, kLearnedAbsolute, kRope };
enum class RopeScaling : uint8_t { kNone, kLinear, kLlama3 };
// `kMasked`: padded logits are skipped (-inf). `kMegatron`: the vocabulary is padded to a multiple
// of 128 * tp and the padded rows take part, in the reference too.
enum class VocabPadding : uint8_t { kMasked, kMegatron };
// With fewer query groups than tensor-parallel ranks. `kGatherQkv`: even row split of linear_qkv,
// all_gather of its output, reduce_scatter backward (Megatron-Core). `kReplicateKv`: each rank
// holds whole K/V heads, gradients summed.
enum class GqaPolicy : uint8_t { kGatherQkv, kReplicateKv };
enum class OptimizerKind : uint8_t { kAdam, kSgd };
// What a forward keeps for its backward. `kFull`: the input of each layer alone; the rest is
// computed again, layer by layer, when the backward gets there.
enum class RecomputeGranularity : uint8_t { kNone, kFull };
// Which states of a parameter the data-parallel ranks share out between them, by Megatron-FSDP's
// names: none; master weights and moments; gradients too; the weights too.
enum class ShardingStrategy : uint8_t { kNoShard, kOptim, kOptimGrads, kOptimGradsParams };

std::string_view Name(Normalization value);
std::string_view Name(Activation value);
std::string_view Name(PositionEmbedding value);
std::string_view Name(RopeScaling value);
std::string_view Name(VocabPadding value);
std::string_view Name(GqaPolicy value);
std::string_view Name(OptimizerKind value);
std::string_view Name(RecomputeGranularity value);
std::string_view Name(ShardingStrategy value);

// A GPT. Field names are Megatron-Core's.
struct TransformerConfig {
  int64_t num_layers = 2;
  int64_t hidden_size = 32;
  int64_t ffn_hidden_size = 128;
  int64_t num_attention_heads = 4;
  int64_t num_query_groups = 4;
  int64_t kv_channels = 8;  // head dimension
  int64_t vocab_size = 251;
  int64_t seq_length = 16;
  int64_t max_position_embeddings = 16;

  Normalization normalization = Normalization::kLayerNorm;
  double norm_epsilon = 1e-5;
  Activation activation = Activation::kGeluTanh;
  bool add_bias_linear = true;
  bool add_qkv_bias = false;  // a bias on linear_qkv alone, when add_bias_linear is false
  bool tied_embeddings = true;

  PositionEmbedding position_embedding = PositionEmbedding::kLearnedAbsolute;
  double rotary_percent = 1.0;
  double rotary_base = 10000.0;
  bool rotary_interleaved = false;
  RopeScaling rope_scaling = RopeScaling::kNone;
  double rope_scaling_factor = 1.0;
  double rope_low_freq_factor = 1.0;          // llama3
  double rope_high_freq_factor = 4.0;         // llama3
  int64_t rope_original_max_position = 8192;  // llama3

  double hidden_dropout = 0.0;
  double attention_dropout = 0.0;
  double init_method_std = 0.02;

  double label_smoothing = 0.0;
  VocabPadding vocab_padding = VocabPadding::kMasked;
  // Rows of the embedding and output weights: vocab_size, or under kMegatron the padded size
  // (PaddedVocabSize).
  int64_t padded_vocab_size = 251;

  bool qkv_bias() const { return add_bias_linear || add_qkv_bias; }
  bool swiglu() const { return activation == Activation::kSwiglu; }
  int64_t heads_per_group() const { return num_attention_heads / num_query_groups; }
  int64_t query_size() const { return num_attention_heads * kv_channels; }
  int64_t qkv_size() const { return (num_attention_heads + 2 * num_query_groups) * kv_channels; }
  // Rows of linear_fc1: gate rows, then up rows, with SwiGLU.
  int64_t fc1_size() const { return swiglu() ? 2 * ffn_hidden_size : ffn_hidden_size; }
  // How many of a head's channels rotate.
  int64_t rotary_channels() const {
    return static_cast<int64_t>(static_cast<double>(kv_channels) * rotary_percent);
  }
};

struct TrainConfig {
  uint64_t seed = 1234;
  int64_t steps = 3;
  int64_t micro_batch_size = 2;
  int64_t global_batch_size = 4;
  bool calculate_per_token_loss = false;

  OptimizerKind optimizer = OptimizerKind::kAdam;
  double lr = 1e-3;
  double weight_decay = 0.1;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_eps = 1e-8;
  double sgd_momentum = 0.9;
  double clip_grad = 1.0;  // 0: no clipping

  bool packed_documents =
      false;  // several documents in one sequence: attention and positions stay inside each
  double loss_mask_keep = 1.0;  // chance that a label counts

  // Microbatches of the whole step, over all data-parallel ranks. Rank r's i-th is number i * dp +
  // r.
  int64_t global_microbatches() const { return global_batch_size / micro_batch_size; }
};

// Megatron-Core's DistributedDataParallelConfig, by its names.
struct DataParallelConfig {
  // Gradients live in contiguous buffers that are reduced bucket by bucket; off: one all_reduce per
  // parameter, and nothing below applies.
  bool gradient_buffers = false;
  ShardingStrategy sharding_strategy = ShardingStrategy::kNoShard;
  bool overlap_grad_reduce = false;
  bool overlap_param_gather = false;
  int64_t bucket_size = 0;  // elements; 0: max(40,000,000, 1,000,000 * dp), Megatron's default
  bool average_in_collective = false;
  bool pad_buckets_for_high_nccl_busbw = false;
  int num_distributed_optimizer_instances = 1;
  // Of bf16 and fp16 runs: main gradients in the parameters' dtype instead of fp32.
  bool grads_in_param_dtype = false;

  bool use_distributed_optimizer() const { return sharding_strategy != ShardingStrategy::kNoShard; }
};

struct ParallelConfig {
  int tp = 1;
  int cp = 1;
  int dp = 1;
  int pp = 1;
  int ep = 1;
  int etp = 0;  // 0: as tp, Megatron's default
  bool sequence_parallel = false;
  std::string order = "tp-cp-ep-dp-pp";  // fastest first
  GqaPolicy gqa_policy = GqaPolicy::kGatherQkv;

  // Pipelines; parallel/pipeline/stage_layout.h says what they mean and checks them.
  std::string schedule;    // "": what Megatron runs: interleaved with virtual stages, else 1f1b
  int virtual_stages = 1;  // model chunks of a rank
  int microbatch_group_size = 0;                  // of an interleaved schedule; 0: pp
  std::string pipeline_layout;                    // "Et*3|t*4|t*4|tL"; "": an even split
  int64_t decoder_first_pipeline_num_layers = 0;  // 0: as the stages in the middle
  int64_t decoder_last_pipeline_num_layers = 0;
  RecomputeGranularity recompute_granularity = RecomputeGranularity::kNone;

  DataParallelConfig data;

  int world_size() const { return tp * cp * dp * pp; }
  int expert_tp() const { return etp == 0 ? tp : etp; }
};

// Rows after Megatron's padding: the next multiple of 128 * tp.
int64_t PaddedVocabSize(int64_t vocab_size, int tp);

// Everything that defines a run, beside its data.
struct RunConfig {
  TransformerConfig model;
  TrainConfig train;
  ParallelConfig parallel;
  DType dtype = DType::kF64;

  int64_t num_microbatches() const { return train.global_microbatches() / parallel.dp; }
  // Of master weights and moments: fp32 where `dtype` is bf16 or fp16.
  DType main_dtype() const {
    return dtype == DType::kBF16 || dtype == DType::kF16 ? DType::kF32 : dtype;
  }
  // Of main gradients.
  DType grad_dtype() const { return parallel.data.grads_in_param_dtype ? dtype : main_dtype(); }
};

// Throws InvalidArgument with the rule that a combination breaks, named as Megatron names its
// flags.
void Validate(const RunConfig& config);
// The same for what is only described, and never allocated: at any size.
void ValidateDescription(const RunConfig& config);

}  // namespace plumbline

#endif  // PLUMBLINE_BASE_CONFIG_H_
