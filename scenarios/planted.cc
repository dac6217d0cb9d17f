#include "scenarios/planted.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/mesh.h"
#include "parallel/comm/mutation.h"
#include "scenarios/planted_calls.h"
#include "scenarios/planted_data_parallel.h"
#include "scenarios/planted_pipeline.h"
#include "scenarios/planted_step.h"

namespace plumbline {
namespace {

constexpr const char* kTp = "--tensor-model-parallel-size above 1";
constexpr const char* kDp = "--data-parallel-size above 1";

std::string NeedsTp(const RunConfig& config) { return config.parallel.tp > 1 ? "" : kTp; }

std::string NeedsDp(const RunConfig& config) { return config.parallel.dp > 1 ? "" : kDp; }

std::string NeedsSequenceParallel(const RunConfig& config) {
  return config.parallel.sequence_parallel ? "" : "--sequence-parallel";
}

std::string NeedsRowBias(const RunConfig& config) {
  return config.model.add_bias_linear ? NeedsTp(config) : "biases in linear layers";
}

std::string NeedsAverage(const RunConfig& config) {
  return config.train.calculate_per_token_loss ? "a loss per microbatch" : NeedsDp(config);
}

// One all_reduce a parameter, and biases among them.
std::string NeedsReductionsOfBiases(const RunConfig& config) {
  if (config.parallel.data.gradient_buffers) return "no gradient buffers";
  return config.model.add_bias_linear ? NeedsDp(config) : "biases in linear layers";
}

// The reduction of one of two gradients that follow each other and have the same shape, in step 1.
bool IsOneOfTwoReductions(const CollectiveCall& call, int) {
  const std::string layer = "decoder.layers.0.";
  return call.op == CollectiveOp::kAllReduce && call.group.name.starts_with("dp") &&
         call.site.phase == Phase::kFinalize && call.site.step == 1 &&
         (call.site.tensor == layer + "self_attention.linear_proj.bias" ||
          call.site.tensor == layer + "pre_mlp_layernorm.weight");
}

bool IsFirstOfTwoReductions(const CollectiveCall& call, int global_rank) {
  return IsOneOfTwoReductions(call, global_rank) && call.site.tensor.ends_with("bias");
}

// On the last rank of those that hold the first layer.
void MutateLastRank(Scenario& scenario, std::function<MutationRule()> rule) {
  const Mesh mesh(scenario.config.parallel);
  int last = 0;
  for (int rank = 0; rank < mesh.world_size(); ++rank) {
    if (mesh.CoordinateOf(rank, "pp") == 0) last = rank;
  }
  MutateCallsOfRank(scenario, last, std::move(rule));
}

void PlantMaskOffByOneShard(Scenario& scenario) {
  scenario.policies.first_vocab_row = [](const std::string& module, int tp_rank,
                                         int64_t rows_per_rank) {
    return (module == "output_layer" ? tp_rank + 1 : tp_rank) * rows_per_rank;
  };
}

std::vector<Planted> MakePlanted() {
  std::vector<Planted> all = {
      {"sp-norm-gradient-not-summed",
       "norm weights' gradients are left unsummed over tp ranks that each saw a part of the "
       "sequence",
       NeedsSequenceParallel,
       [](Scenario& scenario) {
         scenario.policies.sum_sequence_parallel_gradient = [](const std::string& parameter) {
           return parameter.find("layernorm") == std::string::npos;
         };
       }},
      {"row-bias-on-every-rank",
       "every tp rank adds the bias of a row-parallel layer before the sum", NeedsRowBias,
       [](Scenario& scenario) {
         scenario.policies.bias_before_reduction = [](const std::string&, int) { return true; };
       }},
      {"target-mask-off-by-one-shard",
       "every rank masks the loss's targets by the rows of the next vocabulary shard", NeedsTp,
       PlantMaskOffByOneShard},
      {"gradients-over-wrong-group", "gradients are reduced over tp instead of dp", NeedsTp,
       [](Scenario& scenario) { scenario.policies.data_parallel.group_axes = "tp"; }},
      {"gradients-summed-not-averaged", "gradients are summed over dp where an average is due",
       NeedsAverage,
       [](Scenario& scenario) {
         scenario.policies.data_parallel.reduce_op_per_microbatch = ReduceOp::kSum;
       }},
      {"gradient-reductions-swapped",
       "one rank issues two gradient all_reduces of the same shape in swapped order",
       NeedsReductionsOfBiases,
       [](Scenario& scenario) {
         MutateLastRank(scenario, [] { return SwapWithNext(IsOneOfTwoReductions); });
       }},
      {"gradient-reduction-skipped", "one rank skips a gradient all_reduce",
       NeedsReductionsOfBiases,
       [](Scenario& scenario) {
         MutateLastRank(scenario, [] { return Skip(IsFirstOfTwoReductions); });
       }},
  };
  for (std::vector<Planted> more :
       {PlantedStepMistakes(), PlantedPipelineMistakes(), DataParallelMistakes()}) {
    std::move(more.begin(), more.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace

const std::vector<Planted>& PlantedMistakes() {
  static const std::vector<Planted> planted = MakePlanted();
  return planted;
}

void Plant(std::string_view name, Scenario& scenario) {
  const std::vector<Planted>& all = PlantedMistakes();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [name](const Planted& planted) { return planted.name == name; });
  if (found == all.end()) {
    std::vector<std::string> names;
    for (const Planted& planted : all) names.push_back(planted.name);
    throw InvalidArgument("--plant '{}': expected one of {}", name, fmt::join(names, ", "));
  }
  const std::string lacks = found->lacks(scenario.config);
  if (!lacks.empty()) throw InvalidArgument("--plant {}: needs {}", name, lacks);
  found->plant(scenario);
}

}  // namespace plumbline
