#include "base/data_parallel_rules.h"

#include "base/error.h"

namespace plumbline {
namespace {

bool LowPrecision(const RunConfig& config) { return config.main_dtype() != config.dtype; }

// Gradients, or gradients and parameters, are sharded unit by unit.
bool ShardsGradients(const RunConfig& config) {
  return config.parallel.data.sharding_strategy >= ShardingStrategy::kOptimGrads;
}

// The dtype of main gradients is one with and without buffers.
bool AnySet(const DataParallelConfig& data) {
  DataParallelConfig unset;
  unset.gradient_buffers = data.gradient_buffers;
  return data.sharding_strategy != unset.sharding_strategy || data.overlap_grad_reduce ||
         data.overlap_param_gather || data.bucket_size != unset.bucket_size ||
         data.average_in_collective || data.pad_buckets_for_high_nccl_busbw ||
         data.num_distributed_optimizer_instances != unset.num_distributed_optimizer_instances;
}

constexpr DataParallelRule kRules[] = {
    {"param-gather-needs-distributed-optimizer", RuleSource::kMegatron,
     "--overlap-param-gather needs --use-distributed-optimizer, or --use-megatron-fsdp with a "
     "sharding strategy",
     [](const RunConfig& config) {
       const DataParallelConfig& data = config.parallel.data;
       return data.overlap_param_gather && !data.use_distributed_optimizer();
     }},
    {"param-gather-needs-grad-reduce", RuleSource::kMegatron,
     "--overlap-param-gather needs --overlap-grad-reduce",
     [](const RunConfig& config) {
       const DataParallelConfig& data = config.parallel.data;
       return data.overlap_param_gather && !data.overlap_grad_reduce;
     }},
    {"instances-need-distributed-optimizer", RuleSource::kMegatron,
     "--num-distributed-optimizer-instances above 1 needs --use-distributed-optimizer",
     [](const RunConfig& config) {
       const DataParallelConfig& data = config.parallel.data;
       return data.num_distributed_optimizer_instances > 1 && !data.use_distributed_optimizer();
     }},
    {"instances-divide-ranks", RuleSource::kMegatron,
     "--num-distributed-optimizer-instances must divide --data-parallel-size times "
     "--context-parallel-size",
     [](const RunConfig& config) {
       const ParallelConfig& parallel = config.parallel;
       return int64_t{1} * parallel.dp * parallel.cp %
                  parallel.data.num_distributed_optimizer_instances !=
              0;
     }},
    {"no-average-per-token", RuleSource::kMegatron,
     "--ddp-average-in-collective does not go with --calculate-per-token-loss: such a loss divides "
     "by tokens alone",
     [](const RunConfig& config) {
       return config.parallel.data.average_in_collective && config.train.calculate_per_token_loss;
     }},
    {"padding-needs-distributed-optimizer", RuleSource::kPlumbline,
     "--ddp-pad-buckets-for-high-nccl-busbw needs --use-distributed-optimizer and no "
     "strategy that shards gradients; Megatron ignores it else, as no other buckets are padded so",
     [](const RunConfig& config) {
       const DataParallelConfig& data = config.parallel.data;
       return data.pad_buckets_for_high_nccl_busbw &&
              data.sharding_strategy != ShardingStrategy::kOptim;
     }},
    {"grads-in-param-dtype-need-low-precision", RuleSource::kPlumbline,
     "main gradients in the parameters' dtype (--grad-reduce-in-bf16) need --bf16 or --fp16; "
     "Megatron ignores the flag without",
     [](const RunConfig& config) {
       return config.parallel.data.grads_in_param_dtype && !LowPrecision(config);
     }},
    {"one-instance-of-sharded-gradients", RuleSource::kPlumbline,
     "--num-distributed-optimizer-instances above 1 is not modelled with "
     "--data-parallel-sharding-strategy optim_grads or optim_grads_params",
     [](const RunConfig& config) {
       return ShardsGradients(config) &&
              config.parallel.data.num_distributed_optimizer_instances > 1;
     }},
    {"sharded-gradients-need-whole-backward", RuleSource::kPlumbline,
     "--data-parallel-sharding-strategy optim_grads and optim_grads_params need a --schedule whose "
     "backward is one piece: zb-h1 and zb-h2 make gradients after a unit has handed its own on",
     [](const RunConfig& config) {
       return ShardsGradients(config) && config.parallel.schedule.starts_with("zb-");
     }},
    {"settings-need-buffers", RuleSource::kPlumbline,
     "buckets, overlap and sharding need gradient buffers; every flag of data parallelism turns "
     "them on",
     [](const RunConfig& config) {
       return !config.parallel.data.gradient_buffers && AnySet(config.parallel.data);
     }},
    {"distributed-optimizer-needs-adam", RuleSource::kLifted,
     "--use-distributed-optimizer needs --optimizer adam in Megatron, for its checkpoints; sgd is "
     "allowed here, because Adam hides a constant factor of a gradient and sgd shows it",
     [](const RunConfig& config) {
       return config.parallel.data.use_distributed_optimizer() &&
              config.train.optimizer != OptimizerKind::kAdam;
     }},
};

}  // namespace

std::string_view Name(RuleSource value) {
  switch (value) {
    case RuleSource::kMegatron:
      return "megatron";
    case RuleSource::kPlumbline:
      return "plumbline";
    case RuleSource::kLifted:
      return "lifted";
  }
  throw Internal("rule source {} has no name", static_cast<int>(value));
}

std::span<const DataParallelRule> DataParallelRules() { return kRules; }

void CheckDataParallel(const RunConfig& config) {
  for (const DataParallelRule& rule : kRules) {
    if (rule.source == RuleSource::kLifted || !rule.broken(config)) continue;
    throw InvalidArgument("{} (rule {})", rule.text, rule.name);
  }
}

}  // namespace plumbline
