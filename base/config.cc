#include "base/config.h"

#include <array>
#include <cmath>
#include <initializer_list>
#include <string_view>

#include "base/data_parallel_rules.h"
#include "base/error.h"

namespace plumbline {
namespace {

template <size_t N, class E>
std::string_view Lookup(const std::array<std::string_view, N>& names, E value) {
  PL_CHECK(static_cast<size_t>(value) < N);
  return names[static_cast<size_t>(value)];
}

// One flag and its value.
template <class T>
struct Flag {
  std::string_view name;
  T value;
};

// No size beyond this can be meant, and products of three stay within 64 bits.
constexpr int64_t kMaxSize = int64_t{1} << 20;
constexpr int64_t kMaxSamples = int64_t{1} << 31;
constexpr int64_t kMaxWorldSize = 65536;

void CheckAtLeast(std::initializer_list<Flag<int64_t>> flags, int64_t least, int64_t most) {
  for (const Flag<int64_t>& flag : flags) {
    if (flag.value < least) {
      throw InvalidArgument("{} {}: must be at least {}", flag.name, flag.value, least);
    }
    if (flag.value > most) {
      throw InvalidArgument("{} {}: must be at most {}", flag.name, flag.value, most);
    }
  }
}

void CheckMultiple(Flag<int64_t> size, Flag<int64_t> divisor) {
  if (size.value % divisor.value == 0) return;
  throw InvalidArgument("{} {} must be a multiple of {} {}", size.name, size.value, divisor.name,
                        divisor.value);
}

void CheckNotNegative(std::initializer_list<Flag<double>> flags) {
  for (const Flag<double>& flag : flags) {
    if (!(flag.value >= 0) || !std::isfinite(flag.value)) {
      throw InvalidArgument("{} {}: must be a finite number, 0 or above", flag.name, flag.value);
    }
  }
}

void CheckPositive(std::initializer_list<Flag<double>> flags) {
  for (const Flag<double>& flag : flags) {
    if (!(flag.value > 0) || !std::isfinite(flag.value)) {
      throw InvalidArgument("{} {}: must be a finite number above 0", flag.name, flag.value);
    }
  }
}

// Probabilities of dropping, and factors of exponential means.
void CheckBelowOne(std::initializer_list<Flag<double>> flags) {
  for (const Flag<double>& flag : flags) {
    if (!(flag.value >= 0) || !(flag.value < 1)) {
      throw InvalidArgument("{} {}: must be in [0, 1)", flag.name, flag.value);
    }
  }
}

void CheckRotary(const TransformerConfig& model) {
  if (model.position_embedding != PositionEmbedding::kRope) return;
  CheckPositive({{"--rotary-base", model.rotary_base},
                 {"--rotary-percent", model.rotary_percent},
                 {"--rope-scaling-factor", model.rope_scaling_factor}});
  if (!(model.rotary_percent <= 1)) {
    throw InvalidArgument("--rotary-percent {}: must be at most 1", model.rotary_percent);
  }
  const int64_t channels = model.rotary_channels();
  if (channels < 2 || channels % 2 != 0) {
    throw InvalidArgument(
        "--rotary-percent {} of --kv-channels {} makes {} rotary channels; must be even and at "
        "least 2",
        model.rotary_percent, model.kv_channels, channels);
  }
  if (model.rope_scaling != RopeScaling::kLlama3) return;
  CheckPositive({{"--rope-low-freq-factor", model.rope_low_freq_factor},
                 {"--rope-high-freq-factor", model.rope_high_freq_factor}});
  CheckAtLeast({{"--rope-original-max-position", model.rope_original_max_position}}, 1,
               kMaxSamples);
  if (!(model.rope_low_freq_factor < model.rope_high_freq_factor)) {
    throw InvalidArgument("--rope-low-freq-factor {} must be below --rope-high-freq-factor {}",
                          model.rope_low_freq_factor, model.rope_high_freq_factor);
  }
}

void CheckModel(const TransformerConfig& model) {
  CheckAtLeast({{"--num-layers", model.num_layers},
                {"--hidden-size", model.hidden_size},
                {"--ffn-hidden-size", model.ffn_hidden_size},
                {"--num-attention-heads", model.num_attention_heads},
                {"--num-query-groups", model.num_query_groups},
                {"--kv-channels", model.kv_channels},
                {"--seq-length", model.seq_length},
                {"--max-position-embeddings", model.max_position_embeddings}},
               1, kMaxSize);
  CheckAtLeast({{"--vocab-size", model.vocab_size}}, 2, kMaxSize);
  CheckMultiple({"--num-attention-heads", model.num_attention_heads},
                {"--num-query-groups", model.num_query_groups});
  if (model.position_embedding == PositionEmbedding::kLearnedAbsolute &&
      model.seq_length > model.max_position_embeddings) {
    throw InvalidArgument("--seq-length {} must be at most --max-position-embeddings {}",
                          model.seq_length, model.max_position_embeddings);
  }
  CheckRotary(model);
  CheckPositive({{"--norm-epsilon", model.norm_epsilon}});
  CheckNotNegative({{"--init-method-std", model.init_method_std}});
  CheckBelowOne({{"--hidden-dropout", model.hidden_dropout},
                 {"--attention-dropout", model.attention_dropout},
                 {"--label-smoothing", model.label_smoothing}});
}

void CheckTrain(const TrainConfig& train) {
  CheckAtLeast({{"--train-iters", train.steps}}, 1, kMaxSamples);
  CheckAtLeast({{"--micro-batch-size", train.micro_batch_size},
                {"--global-batch-size", train.global_batch_size}},
               1, kMaxSize);
  CheckNotNegative({{"--lr", train.lr},
                    {"--weight-decay", train.weight_decay},
                    {"--clip-grad", train.clip_grad}});
  if (train.optimizer == OptimizerKind::kAdam) {
    CheckPositive({{"--adam-eps", train.adam_eps}});
    CheckBelowOne({{"--adam-beta1", train.adam_beta1}, {"--adam-beta2", train.adam_beta2}});
  } else {
    CheckBelowOne({{"--sgd-momentum", train.sgd_momentum}});
  }
  if (!(train.loss_mask_keep > 0) || !(train.loss_mask_keep <= 1)) {
    throw InvalidArgument("--loss-mask-keep {}: must be in (0, 1]", train.loss_mask_keep);
  }
}

void CheckWorld(const ParallelConfig& parallel) {
  CheckAtLeast({{"--tensor-model-parallel-size", parallel.tp},
                {"--context-parallel-size", parallel.cp},
                {"--data-parallel-size", parallel.dp},
                {"--pipeline-model-parallel-size", parallel.pp},
                {"--expert-model-parallel-size", parallel.ep},
                {"--expert-tensor-parallel-size", parallel.expert_tp()},
                {"--num-virtual-stages-per-pipeline-rank", parallel.virtual_stages}},
               1, kMaxWorldSize);
  CheckAtLeast(
      {{"--microbatch-group-size-per-virtual-pipeline-stage", parallel.microbatch_group_size},
       {"--decoder-first-pipeline-num-layers", parallel.decoder_first_pipeline_num_layers},
       {"--decoder-last-pipeline-num-layers", parallel.decoder_last_pipeline_num_layers}},
      0, kMaxSize);
  CheckAtLeast({{"--num-distributed-optimizer-instances",
                 parallel.data.num_distributed_optimizer_instances}},
               1, kMaxWorldSize);
  CheckAtLeast({{"--ddp-bucket-size", parallel.data.bucket_size}}, 0, kMaxSamples);
  int64_t ranks = 1;
  for (int64_t extent : {parallel.tp, parallel.cp, parallel.dp, parallel.pp}) {
    ranks *= extent;
    if (ranks > kMaxWorldSize) {
      throw InvalidArgument("tp {} x cp {} x dp {} x pp {}: more than {} ranks", parallel.tp,
                            parallel.cp, parallel.dp, parallel.pp, kMaxWorldSize);
    }
  }
}

void CheckLayout(const RunConfig& config) {
  const TransformerConfig& model = config.model;
  const ParallelConfig& parallel = config.parallel;
  const Flag<int64_t> tp = {"--tensor-model-parallel-size", parallel.tp};
  CheckMultiple({"--num-attention-heads", model.num_attention_heads}, tp);
  CheckMultiple({"--ffn-hidden-size", model.ffn_hidden_size}, tp);
  if (model.num_query_groups % tp.value != 0 && tp.value % model.num_query_groups != 0) {
    throw InvalidArgument("--num-query-groups {} and {} {}: one must be a multiple of the other",
                          model.num_query_groups, tp.name, tp.value);
  }
  const bool gathers =
      model.num_query_groups < tp.value && parallel.gqa_policy == GqaPolicy::kGatherQkv;
  if (gathers && model.qkv_size() % tp.value != 0) {
    throw InvalidArgument(
        "--num-query-groups {} below {} {}: the {} rows of linear_qkv must be a multiple of {}; "
        "--gqa-policy replicate_kv does not cut them evenly",
        model.num_query_groups, tp.name, tp.value, model.qkv_size(), tp.value);
  }
  const int64_t expected_rows = model.vocab_padding == VocabPadding::kMegatron
                                    ? PaddedVocabSize(model.vocab_size, parallel.tp)
                                    : model.vocab_size;
  if (model.padded_vocab_size != expected_rows) {
    throw InvalidArgument(
        "padded vocabulary size {}: --vocab-size {} with --vocab-padding {} and "
        "{} {} makes {}",
        model.padded_vocab_size, model.vocab_size, Name(model.vocab_padding), tp.name, tp.value,
        expected_rows);
  }
  if (parallel.sequence_parallel) {
    if (parallel.tp < 2) {
      throw InvalidArgument("--sequence-parallel needs {} above 1; it is {}", tp.name, tp.value);
    }
    CheckMultiple({"--seq-length", model.seq_length}, tp);
  }
  const TrainConfig& train = config.train;
  if (train.global_batch_size % (train.micro_batch_size * parallel.dp) != 0) {
    throw InvalidArgument(
        "--global-batch-size {} must be a multiple of --micro-batch-size {} times the "
        "data-parallel size {}",
        train.global_batch_size, train.micro_batch_size, parallel.dp);
  }
}

// In double, because what is refused may not fit 64 bits.
double ParameterElements(const TransformerConfig& model) {
  const double hidden = static_cast<double>(model.hidden_size);
  const double layer =
      hidden * (static_cast<double>(model.qkv_size()) + static_cast<double>(model.query_size()) +
                static_cast<double>(model.fc1_size()) + static_cast<double>(model.ffn_hidden_size));
  const double embeddings =
      hidden * static_cast<double>(model.padded_vocab_size) * (model.tied_embeddings ? 1 : 2);
  const double positions = model.position_embedding == PositionEmbedding::kLearnedAbsolute
                               ? hidden * static_cast<double>(model.max_position_embeddings)
                               : 0;
  return static_cast<double>(model.num_layers) * layer + embeddings + positions;
}

// What a forward keeps for the backward, at least: per token and layer the residuals, qkv, the
// MLP's intermediate and the attention probabilities, and the logits.
double ActivationElements(const TransformerConfig& model, const TrainConfig& train) {
  const double per_layer =
      4 * static_cast<double>(model.hidden_size) + static_cast<double>(model.qkv_size()) +
      2 * static_cast<double>(model.fc1_size()) +
      static_cast<double>(model.num_attention_heads) * static_cast<double>(model.seq_length);
  const double tokens =
      static_cast<double>(train.micro_batch_size) * static_cast<double>(model.seq_length);
  return tokens * (static_cast<double>(model.num_layers) * per_layer +
                   static_cast<double>(model.padded_vocab_size));
}

// Refuses what cannot fit the machine that the project is designed for, before it tries.
void CheckMemory(const RunConfig& config) {
  constexpr double kGiB = 1024.0 * 1024 * 1024;
  constexpr double kLimit = 24 * kGiB;
  const ParallelConfig& parallel = config.parallel;
  const double element = static_cast<double>(SizeOf(config.dtype));
  const double replicas = static_cast<double>(parallel.dp) * parallel.cp;
  // Parameter, gradient and two moments, by the ranks and by the reference in f64.
  const double parameters =
      4 * ParameterElements(config.model) * (replicas * element + sizeof(double));
  if (parameters > kLimit) {
    throw InvalidArgument(
        "parameters, gradients and moments of {} data-parallel replicas and the reference would "
        "take {:.1f} GiB, more than 24: lower --num-layers, --hidden-size, --ffn-hidden-size, "
        "--vocab-size or the data-parallel size",
        replicas, parameters / kGiB);
  }
  const double activations =
      ActivationElements(config.model, config.train) * (replicas * element + sizeof(double));
  if (activations > kLimit) {
    throw InvalidArgument(
        "activations of one microbatch on {} data-parallel replicas and the reference would take "
        "{:.1f} GiB, more than 24: lower --seq-length, --micro-batch-size, --num-layers or "
        "--hidden-size",
        replicas, activations / kGiB);
  }
  const double batch = static_cast<double>(config.train.global_batch_size) *
                       static_cast<double>(config.model.seq_length) * 5 * sizeof(double);
  if (batch > kLimit) {
    throw InvalidArgument(
        "tokens of one step would take {:.1f} GiB, more than 24: lower "
        "--global-batch-size or --seq-length",
        batch / kGiB);
  }
}

}  // namespace

std::string_view Name(Normalization value) { return Lookup<2>({"LayerNorm", "RMSNorm"}, value); }
std::string_view Name(Activation value) {
  return Lookup<4>({"gelu_tanh", "gelu_erf", "squared_relu", "swiglu"}, value);
}
std::string_view Name(PositionEmbedding value) {
  return Lookup<3>({"none", "learned_absolute", "rope"}, value);
}
std::string_view Name(RopeScaling value) { return Lookup<3>({"none", "linear", "llama3"}, value); }
std::string_view Name(VocabPadding value) { return Lookup<2>({"masked", "megatron"}, value); }
std::string_view Name(GqaPolicy value) { return Lookup<2>({"gather_qkv", "replicate_kv"}, value); }
std::string_view Name(OptimizerKind value) { return Lookup<2>({"adam", "sgd"}, value); }
std::string_view Name(RecomputeGranularity value) { return Lookup<2>({"none", "full"}, value); }
std::string_view Name(ShardingStrategy value) {
  return Lookup<4>({"no_shard", "optim", "optim_grads", "optim_grads_params"}, value);
}

int64_t PaddedVocabSize(int64_t vocab_size, int tp) {
  const int64_t multiple = int64_t{128} * tp;
  return (vocab_size + multiple - 1) / multiple * multiple;
}

void Validate(const RunConfig& config) {
  ValidateDescription(config);
  CheckMemory(config);
}

void ValidateDescription(const RunConfig& config) {
  CheckModel(config.model);
  CheckTrain(config.train);
  CheckWorld(config.parallel);
  CheckLayout(config);
  CheckDataParallel(config);
  if (config.dtype == DType::kI64) {
    throw InvalidArgument("--dtype {}: expected f64, f32, bf16, f16 or a field",
                          Name(config.dtype));
  }
}

}  // namespace plumbline
