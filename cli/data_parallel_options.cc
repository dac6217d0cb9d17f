#include "cli/data_parallel_options.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "parallel/model/stage_parameters.h"
#include "parallel/pipeline/stage_layout.h"

namespace plumbline {
namespace {

bool UsesFsdp(const GivenArguments& given) { return given.Flag("use-megatron-fsdp"); }

constexpr FlagRule kFlagRules[] = {
    {"one-low-precision", RuleSource::kMegatron, "--bf16 and --fp16: give one",
     [](const GivenArguments& given) { return given.Flag("bf16") && given.Flag("fp16"); }},
    {"one-bucket-size", RuleSource::kMegatron, "--ddp-bucket-size and --ddp-num-buckets: give one",
     [](const GivenArguments& given) {
       return given.Has("ddp-bucket-size") && given.Has("ddp-num-buckets");
     }},
    {"one-dtype", RuleSource::kPlumbline, "--dtype and --bf16 or --fp16: give one",
     [](const GivenArguments& given) {
       return given.Has("dtype") && (given.Flag("bf16") || given.Flag("fp16"));
     }},
    {"sharding-needs-fsdp", RuleSource::kPlumbline,
     "--data-parallel-sharding-strategy other than no_shard needs --use-megatron-fsdp; Megatron "
     "ignores it without",
     [](const GivenArguments& given) {
       const auto strategy = given.Text("data-parallel-sharding-strategy");
       return strategy.value_or("no_shard") != "no_shard" && !UsesFsdp(given);
     }},
    {"bf16-reduction-needs-bf16", RuleSource::kPlumbline,
     "--grad-reduce-in-bf16 needs --bf16; Megatron ignores it without",
     [](const GivenArguments& given) {
       const bool bf16 = given.Flag("bf16") || given.Text("dtype").value_or("") == "bf16";
       return given.Flag("grad-reduce-in-bf16") && !bf16;
     }},
};

constexpr std::array<const char*, 9> kFlags = {"use-distributed-optimizer",
                                               "overlap-grad-reduce",
                                               "overlap-param-gather",
                                               "ddp-bucket-size",
                                               "ddp-num-buckets",
                                               "ddp-average-in-collective",
                                               "ddp-pad-buckets-for-high-nccl-busbw",
                                               "num-distributed-optimizer-instances",
                                               "use-megatron-fsdp"};

// Of all chunks of the first stage, which alone has buckets.
int64_t FirstStageElements(const RunConfig& config) {
  const StageLayout layout(config);
  int64_t elements = 0;
  for (int chunk = 0; chunk < layout.chunks(); ++chunk) {
    for (const StageParameter& parameter : StageParameters(config, layout.At(0, chunk))) {
      elements += parameter.elements;
    }
  }
  return elements;
}

void CheckFlags(const GivenArguments& given) {
  for (const FlagRule& rule : kFlagRules) {
    if (rule.broken(given)) throw InvalidArgument("{} (rule {})", rule.text, rule.name);
  }
}

int64_t AtLeastOne(const GivenArguments& given, const std::string& name) {
  const int64_t value = *given.Integer(name);
  if (value < 1) throw InvalidArgument("{} {}: must be at least 1", given.Label(name), value);
  return value;
}

ShardingStrategy StrategyOf(const GivenArguments& given) {
  using Strategy = ShardingStrategy;
  const auto named = given.Choice<Strategy>("data-parallel-sharding-strategy",
                                            {{"no_shard", Strategy::kNoShard},
                                             {"optim", Strategy::kOptim},
                                             {"optim_grads", Strategy::kOptimGrads},
                                             {"optim_grads_params", Strategy::kOptimGradsParams}});
  if (UsesFsdp(given)) return named.value_or(Strategy::kNoShard);
  return given.Flag("use-distributed-optimizer") ? Strategy::kOptim : Strategy::kNoShard;
}

int64_t BucketSize(const GivenArguments& given, const RunConfig& config) {
  if (given.Has("ddp-bucket-size")) return AtLeastOne(given, "ddp-bucket-size");
  if (!given.Has("ddp-num-buckets")) return 0;
  const int64_t buckets = AtLeastOne(given, "ddp-num-buckets");
  const int64_t elements = FirstStageElements(config);
  if (buckets > elements) {
    throw InvalidArgument("{} {}: a rank of the first stage has {} elements",
                          given.Label("ddp-num-buckets"), buckets, elements);
  }
  return elements / buckets;
}

// Without --accumulate-allreduce-grads-in-fp32 gradients have the parameters' dtype, but with
// --bf16, which turns it on unless --grad-reduce-in-bf16 says otherwise.
bool GradsInParamDtype(const GivenArguments& given, DType dtype) {
  if (dtype == DType::kBF16) return given.Flag("grad-reduce-in-bf16");
  return dtype == DType::kF16 && !given.Flag("accumulate-allreduce-grads-in-fp32");
}

void AddNotes(const GivenArguments& given, const RunConfig& config,
              std::vector<std::string>* notes) {
  const DataParallelConfig& data = config.parallel.data;
  for (const char* name : {"ddp-bucket-size", "ddp-num-buckets"}) {
    if (given.Has(name) && !data.overlap_grad_reduce) {
      notes->push_back(std::string("--") + name +
                       " has no effect without --overlap-grad-reduce, as in Megatron");
    }
  }
  if (given.Flag("fp16")) notes->push_back("--fp16 runs without loss scaling");
  if (config.dtype == DType::kBF16 && given.Flag("grad-reduce-in-bf16") &&
      given.Flag("accumulate-allreduce-grads-in-fp32")) {
    notes->push_back(
        "--accumulate-allreduce-grads-in-fp32 is switched off by --grad-reduce-in-bf16, as in "
        "Megatron");
  }
  if (UsesFsdp(given) && !given.Has("data-parallel-sharding-strategy")) {
    notes->push_back(
        "--use-megatron-fsdp shards nothing without --data-parallel-sharding-strategy, as in "
        "Megatron");
  }
}

}  // namespace

std::span<const FlagRule> DataParallelFlagRules() { return kFlagRules; }

void ReadDataParallel(const GivenArguments& given, RunConfig* config,
                      std::vector<std::string>* notes) {
  CheckFlags(given);
  DataParallelConfig* data = &config->parallel.data;
  data->grads_in_param_dtype = GradsInParamDtype(given, config->dtype);
  const bool any =
      std::any_of(kFlags.begin(), kFlags.end(), [&](const char* name) { return given.Has(name); });
  // Low precision needs main gradients apart from the parameters' dtype.
  if (any || config->main_dtype() != config->dtype) data->gradient_buffers = true;
  data->sharding_strategy = StrategyOf(given);
  data->overlap_grad_reduce = given.Flag("overlap-grad-reduce");
  data->overlap_param_gather = given.Flag("overlap-param-gather");
  data->bucket_size = BucketSize(given, *config);
  data->average_in_collective = given.Flag("ddp-average-in-collective");
  data->pad_buckets_for_high_nccl_busbw = given.Flag("ddp-pad-buckets-for-high-nccl-busbw");
  if (given.Has("num-distributed-optimizer-instances")) {
    AtLeastOne(given, "num-distributed-optimizer-instances");
    given.ReadInteger("num-distributed-optimizer-instances",
                      &data->num_distributed_optimizer_instances);
  }
  AddNotes(given, *config, notes);
}

void ReadLowPrecision(const GivenArguments& given, DType* dtype) {
  if (given.Flag("bf16")) *dtype = DType::kBF16;
  if (given.Flag("fp16")) *dtype = DType::kF16;
}

}  // namespace plumbline
