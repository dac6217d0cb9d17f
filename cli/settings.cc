#include "cli/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "parallel/data/buffer_layout.h"

namespace plumbline {
namespace {

std::string Text(std::string_view name) { return std::string(name); }

// Under RopeScaling::kLinear the factor belongs to another argument than under kLlama3.
double FactorOf(const TransformerConfig& model, RopeScaling scaling, double otherwise) {
  return model.rope_scaling == scaling ? model.rope_scaling_factor : otherwise;
}

std::vector<Setting> LayoutSettings(const RunConfig& config) {
  const ParallelConfig& parallel = config.parallel;
  return {
      {"tensor-model-parallel-size", int64_t{parallel.tp}},
      {"sequence-parallel", parallel.sequence_parallel},
      {"data-parallel-size", int64_t{parallel.dp}},
      {"order", parallel.order},
      {"gqa-policy", Text(Name(parallel.gqa_policy))},
      {"pipeline-model-parallel-size", int64_t{parallel.pp}},
      {"schedule", parallel.schedule},
      {"num-virtual-stages-per-pipeline-rank", int64_t{parallel.virtual_stages}},
      {"microbatch-group-size-per-virtual-pipeline-stage",
       int64_t{parallel.microbatch_group_size == 0 ? parallel.pp : parallel.microbatch_group_size}},
      {"pipeline-model-parallel-layout", parallel.pipeline_layout},
      {"decoder-first-pipeline-num-layers", parallel.decoder_first_pipeline_num_layers},
      {"decoder-last-pipeline-num-layers", parallel.decoder_last_pipeline_num_layers},
      {"recompute-granularity", Text(Name(parallel.recompute_granularity))},
      {"dtype", Text(Name(config.dtype))},
  };
}

std::vector<Setting> DataParallelSettings(const RunConfig& config) {
  const DataParallelConfig& data = config.parallel.data;
  const bool low_precision = config.main_dtype() != config.dtype;
  return {
      {"use-distributed-optimizer", data.use_distributed_optimizer()},
      {"overlap-grad-reduce", data.overlap_grad_reduce},
      {"overlap-param-gather", data.overlap_param_gather},
      {"ddp-bucket-size", BucketSizeOf(config.parallel)},
      {"ddp-average-in-collective", data.average_in_collective},
      {"ddp-pad-buckets-for-high-nccl-busbw", data.pad_buckets_for_high_nccl_busbw},
      {"num-distributed-optimizer-instances", int64_t{data.num_distributed_optimizer_instances}},
      {"data-parallel-sharding-strategy", Text(Name(data.sharding_strategy))},
      {"accumulate-allreduce-grads-in-fp32", low_precision && !data.grads_in_param_dtype},
      {"grad-reduce-in-bf16", config.dtype == DType::kBF16 && data.grads_in_param_dtype},
  };
}

std::vector<Setting> ModelSettings(const TransformerConfig& model) {
  return {
      {"num-layers", model.num_layers},
      {"hidden-size", model.hidden_size},
      {"ffn-hidden-size", model.ffn_hidden_size},
      {"num-attention-heads", model.num_attention_heads},
      {"group-query-attention", model.num_query_groups != model.num_attention_heads},
      {"num-query-groups", model.num_query_groups},
      {"kv-channels", model.kv_channels},
      {"seq-length", model.seq_length},
      {"vocab-size", model.vocab_size},
      {"vocab-padding", Text(Name(model.vocab_padding))},
      {"swiglu", model.swiglu()},
      {"squared-relu", model.activation == Activation::kSquaredRelu},
      {"no-bias-gelu-fusion", model.activation == Activation::kGeluErf},
      {"normalization", model.normalization == Normalization::kRmsNorm ? std::string("RMSNorm")
                                                                       : std::string("LayerNorm")},
      {"norm-epsilon", model.norm_epsilon},
      {"disable-bias-linear", !model.add_bias_linear},
      {"add-qkv-bias", model.add_qkv_bias},
      {"untie-embeddings-and-output-weights", !model.tied_embeddings},
      {"init-method-std", model.init_method_std},
      {"hidden-dropout", model.hidden_dropout},
      {"attention-dropout", model.attention_dropout},
      {"label-smoothing", model.label_smoothing},
      {"position-embedding-type", Text(Name(model.position_embedding))},
      {"max-position-embeddings", model.max_position_embeddings},
      {"rotary-percent", model.rotary_percent},
      {"rotary-base", model.rotary_base},
      {"rotary-interleaved", model.rotary_interleaved},
      {"rotary-seq-len-interpolation-factor", FactorOf(model, RopeScaling::kLinear, 1.0)},
      {"use-rope-scaling", model.rope_scaling == RopeScaling::kLlama3},
      {"rope-scaling-factor", FactorOf(model, RopeScaling::kLlama3, 8.0)},
  };
}

std::vector<Setting> TrainingSettings(const TrainConfig& train) {
  return {
      {"train-iters", train.steps},
      {"micro-batch-size", train.micro_batch_size},
      {"global-batch-size", train.global_batch_size},
      {"seed", static_cast<int64_t>(train.seed)},
      {"optimizer", Text(Name(train.optimizer))},
      {"lr", train.lr},
      {"weight-decay", train.weight_decay},
      {"clip-grad", train.clip_grad},
      {"adam-beta1", train.adam_beta1},
      {"adam-beta2", train.adam_beta2},
      {"adam-eps", train.adam_eps},
      {"sgd-momentum", train.sgd_momentum},
      {"calculate-per-token-loss", train.calculate_per_token_loss},
      {"loss-mask-keep", train.loss_mask_keep},
      {"packed-documents", train.packed_documents},
  };
}

bool DataParallelActs(const std::string& name, const DataParallelConfig& data) {
  if (name == "ddp-bucket-size")
    return data.overlap_grad_reduce && data.sharding_strategy < ShardingStrategy::kOptimGrads;
  if (name == "num-distributed-optimizer-instances") return data.use_distributed_optimizer();
  if (name == "data-parallel-sharding-strategy") return data.use_distributed_optimizer();
  return true;
}

bool Acts(const std::string& name, const RunConfig& config) {
  const TransformerConfig& model = config.model;
  const bool adam = config.train.optimizer == OptimizerKind::kAdam;
  if (name.starts_with("adam-")) return adam;
  if (name == "sgd-momentum") return !adam;
  const ParallelConfig& parallel = config.parallel;
  const bool interleaved = parallel.virtual_stages > 1 || parallel.schedule == "interleaved";
  if (name == "microbatch-group-size-per-virtual-pipeline-stage") return interleaved;
  if (name == "num-virtual-stages-per-pipeline-rank") return parallel.virtual_stages > 1;
  if (name == "schedule") return parallel.pp > 1;
  if (name == "pipeline-model-parallel-layout") return !parallel.pipeline_layout.empty();
  if (name == "decoder-first-pipeline-num-layers") {
    return parallel.decoder_first_pipeline_num_layers > 0;
  }
  if (name == "decoder-last-pipeline-num-layers") {
    return parallel.decoder_last_pipeline_num_layers > 0;
  }
  if (name == "gqa-policy") return model.num_query_groups < config.parallel.tp;
  if (name == "rope-scaling-factor") return model.rope_scaling == RopeScaling::kLlama3;
  if (name == "rotary-seq-len-interpolation-factor") {
    return model.rope_scaling == RopeScaling::kLinear;
  }
  if (name.starts_with("rotary-") || name == "use-rope-scaling") {
    return model.position_embedding == PositionEmbedding::kRope;
  }
  if (name == "max-position-embeddings") {
    return model.position_embedding == PositionEmbedding::kLearnedAbsolute;
  }
  return DataParallelActs(name, parallel.data);
}

// Arguments that settle the value of another one.
const std::vector<std::pair<const char*, const char*>>& SettledBy() {
  static const std::vector<std::pair<const char*, const char*>> pairs = {
      {"world-size", "data-parallel-size"},
      {"bf16", "dtype"},
      {"fp16", "dtype"},
      {"ddp-num-buckets", "ddp-bucket-size"},
      {"use-distributed-optimizer", "data-parallel-sharding-strategy"},
      {"data-parallel-sharding-strategy", "use-distributed-optimizer"},
      {"num-layers-per-virtual-pipeline-stage", "num-virtual-stages-per-pipeline-rank"},
      {"use-tp-pp-dp-mapping", "order"},
      {"use-rotary-position-embeddings", "position-embedding-type"},
      {"no-packed-documents", "packed-documents"},
      {"reset-position-ids", "packed-documents"},
  };
  return pairs;
}

// Arguments that say how a result is shown, or that RepeatLine spells out itself.
bool LeftOut(const std::string& name) {
  constexpr std::array<std::string_view, 9> kNames = {"json",
                                                      "timings",
                                                      "max-findings",
                                                      "config",
                                                      "world-size",
                                                      "tensor-model-parallel-size",
                                                      "data-parallel-size",
                                                      "sequence-parallel",
                                                      "seed"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

}  // namespace

std::string ToText(const SettingValue& value) {
  return std::visit([](const auto& held) { return fmt::format("{}", held); }, value);
}

std::vector<Setting> DescribeSettings(const RunConfig& config, const GivenArguments& given) {
  std::vector<Setting> settings = LayoutSettings(config);
  for (const std::vector<Setting>& part :
       {DataParallelSettings(config), ModelSettings(config.model),
        TrainingSettings(config.train)}) {
    settings.insert(settings.end(), part.begin(), part.end());
  }
  for (Setting& setting : settings) {
    setting.given = given.Has(setting.name);
    setting.acts = Acts(setting.name, config);
    for (const auto& [other, name] : SettledBy()) {
      if (setting.name == name && given.Has(other)) setting.given = true;
    }
  }
  return settings;
}

std::string RepeatLine(const RunConfig& config, const GivenArguments& given) {
  std::string line =
      fmt::format("plumbline verify --tp {} --dp {}", config.parallel.tp, config.parallel.dp);
  if (config.parallel.sequence_parallel) line += " --sp";
  for (const Argument& argument : AllArguments()) {
    const std::string& name = argument.name;
    if (argument.kind != ArgumentClass::kModelled || !given.Has(name) || LeftOut(name)) continue;
    line += " --" + name;
    if (argument.arity != Arity::kNone) line += " " + ShellQuote(*given.Text(name));
  }
  return line + fmt::format(" --seed {}", config.train.seed);
}

std::string ShellQuote(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-_./,:=+@%").find(c) != std::string_view::npos;
  });
  if (plain) return word;
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

}  // namespace plumbline
