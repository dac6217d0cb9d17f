#include "scenarios/planted_pipeline.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <string>
#include <utility>

#include "parallel/pipeline/schedule.h"
#include "parallel/pipeline/stage_layout.h"
#include "scenarios/planted_calls.h"

namespace plumbline {
namespace {

std::string NeedsStages(const RunConfig& config) {
  return config.parallel.pp > 1 ? "" : "--pipeline-model-parallel-size above 1";
}
std::string NeedsThreeStages(const RunConfig& config) {
  return config.parallel.pp > 2 ? "" : "--pipeline-model-parallel-size above 2";
}
std::string NeedsMicrobatches(const RunConfig& config) {
  return config.num_microbatches() > 1 ? "" : "at least 2 microbatches";
}
std::string NeedsTiedTable(const RunConfig& config) {
  return config.model.tied_embeddings ? NeedsStages(config) : "tied embeddings";
}
std::string NeedsLossPerMicrobatch(const RunConfig& config) {
  return config.train.calculate_per_token_loss ? "a loss per microbatch"
                                               : NeedsMicrobatches(config);
}
// Where gradients are whole on each rank until their reduction.
std::string NeedsWholeGradients(const RunConfig& config) {
  return config.parallel.data.sharding_strategy < ShardingStrategy::kOptimGrads
             ? NeedsMicrobatches(config)
             : "--data-parallel-sharding-strategy no_shard or optim";
}
std::string NeedsReducer(const RunConfig& config) {
  return config.parallel.dp > 1 ? NeedsWholeGradients(config) : "--data-parallel-size above 1";
}
std::string NeedsEarlyTable(const RunConfig& config) {
  const std::string lacks = NeedsTiedTable(config);
  return lacks.empty() ? NeedsWholeGradients(config) : lacks;
}
std::string NeedsMasksDrawnAgain(const RunConfig& config) {
  if (config.parallel.recompute_granularity != RecomputeGranularity::kFull) {
    return "--recompute-granularity full";
  }
  const bool drops = config.model.hidden_dropout > 0 || config.model.attention_dropout > 0;
  return drops ? "" : "--hidden-dropout or --attention-dropout above 0";
}
std::string NeedsBatches(const RunConfig& config) {
  const std::string lacks = NeedsMicrobatches(config);
  return lacks.empty() ? NeedsStages(config) : lacks;
}
// Only there do two stages send to each other at once, and wait: with virtual stages messages go on
// behind computations.
std::string NeedsAlternation(const RunConfig& config) {
  const std::string lacks = NeedsBatches(config);
  if (!lacks.empty()) return lacks;
  const ScheduleConfig schedule = ScheduleConfigOf(config);
  const bool alternates = schedule.kind != ScheduleKind::kNaive &&
                          schedule.kind != ScheduleKind::kGpipe && schedule.virtual_chunks == 1;
  return alternates ? "" : "a schedule that alternates forwards and backwards, as 1f1b";
}

// The first rank of a stage.
int FirstRank(const RunConfig& config, int stage) {
  return Mesh(config.parallel).RankOf({{"pp", stage}});
}

CallPredicate Messages(CollectiveOp op, Phase phase) {
  return [op, phase](const CollectiveCall& call, int) {
    return call.op == op && call.site.phase == phase;
  };
}

// The receiver uses what it received for its first microbatch for all of them.
void PlantWrongMicrobatch(Scenario& scenario) {
  MutateCallsOfRank(scenario, FirstRank(scenario.config, scenario.config.parallel.pp / 2), [] {
    return FirstResultAgain(Messages(CollectiveOp::kRecv, Phase::kForward));
  });
}

// A stage's first two microbatches of step 1, each under the other's tag.
void PlantSwappedMicrobatches(Scenario& scenario) {
  MutateCalls(scenario, [](const Mesh& mesh, int rank) {
    std::vector<MutationRule> rules;
    if (mesh.CoordinateOf(rank, "pp") != 1) return rules;
    const int dp = mesh.extent("dp");
    rules.push_back(ChangeCall(
        [dp](const CollectiveCall& call, int) {
          return call.op == CollectiveOp::kRecv && call.site.phase == Phase::kForward &&
                 call.site.step == 1 && call.site.microbatch < 2 * dp;
        },
        [dp](CollectiveCall& call) { call.tag += call.site.microbatch < dp ? 1 : -1; }));
    return rules;
  });
}

// Of each batch the messages that are sent come first, and each is waited for.
void PlantCrossedMessages(Scenario& scenario) {
  scenario.policies.pipeline.change_schedule = [](Schedule& schedule) {
    for (std::vector<Operation>& stage : schedule.stages) {
      for (auto first = stage.begin(); first != stage.end();) {
        auto last = first;
        while (last->with_next) (last++)->with_next = false;
        std::stable_partition(first, last + 1,
                              [](const Operation& operation) { return IsSend(operation.kind); });
        first = last + 1;
      }
    }
  };
}

void PlantWrongPeer(Scenario& scenario) {
  const int stage = (scenario.config.parallel.pp - 1) / 2;
  MutateCallsOfRank(scenario, FirstRank(scenario.config, stage), [stage] {
    return ChangeCall(Messages(CollectiveOp::kSend, Phase::kForward),
                      [stage](CollectiveCall& call) {
                        const int size = call.group.size();
                        call.peer = (call.peer + 1) % size;
                        if (call.peer == stage) call.peer = (call.peer + 1) % size;
                      });
  });
}

// Layers count from 0 on each stage.
void PlantStageLocalLayerNumber(Scenario& scenario) {
  const StageLayout layout(scenario.config);
  scenario.policies.pipeline.layer_number = [layout](int stage, int chunk, int32_t layer) {
    return layer - layout.At(stage, chunk).layers.front();
  };
}

std::function<void(Scenario&)> Decide(void (*change)(Policies&)) {
  return [change](Scenario& scenario) { change(scenario.policies); };
}

std::vector<Planted> MessageMistakes() {
  return {
      {"wrong-microbatch-activation",
       "a rank of the middle stage computes every microbatch with the activations of its first",
       NeedsBatches, PlantWrongMicrobatch},
      {"swapped-microbatches",
       "the second stage receives its first two microbatches under each other's number",
       NeedsBatches, PlantSwappedMicrobatches},
      {"crossed-send-recv",
       "every stage sends before it receives where both are due at once, and waits for each",
       NeedsAlternation, PlantCrossedMessages},
      {"wrong-peer", "a rank sends its activations to another stage than the next",
       NeedsThreeStages, PlantWrongPeer},
  };
}

std::vector<Planted> TiedTableMistakes() {
  return {
      {"tied-gradient-not-summed",
       "first and last stage do not sum the gradients of the word table that both hold",
       NeedsTiedTable, Decide([](Policies& p) { p.tied_embedding.reductions = 0; })},
      {"tied-gradient-summed-twice",
       "first and last stage sum the gradients of the word table twice", NeedsTiedTable,
       Decide([](Policies& p) { p.tied_embedding.reductions = 2; })},
      {"tied-gradient-summed-early",
       "first and last stage sum the word table's gradients before the last microbatch was added",
       NeedsEarlyTable, Decide([](Policies& p) {
         p.tied_embedding.after_microbatch = [](int microbatches) { return microbatches - 2; };
       })},
      {"tied-table-counted-twice", "the gradient norm counts both copies of the word table",
       NeedsTiedTable, Decide([](Policies& p) { p.tied_embedding.counts_copy = true; })},
  };
}

std::vector<Planted> AccumulationMistakes() {
  return {
      {"loss-not-divided", "the loss is not divided by the number of microbatches",
       NeedsLossPerMicrobatch,
       Decide([](Policies& p) { p.loss_divisor = [](int64_t) { return int64_t{1}; }; })},
      {"loss-divided-twice", "the loss is divided twice by the number of microbatches",
       NeedsLossPerMicrobatch,
       Decide([](Policies& p) { p.loss_divisor = [](int64_t m) { return m * m; }; })},
      {"gradients-reduced-early",
       "gradients are reduced over data-parallel ranks before the last microbatch was added",
       NeedsReducer, Decide([](Policies& p) {
         p.data_parallel.after_microbatch = [](int microbatches) { return microbatches - 2; };
       })},
  };
}

std::vector<Planted> StageMistakes() {
  return {
      {"stage-local-layer-number", "every stage numbers its layers from 0", NeedsStages,
       PlantStageLocalLayerNumber},
      {"skipped-backward",
       "the middle stage leaves out the backward of its second microbatch and hands zeros on",
       NeedsBatches,
       [](Scenario& scenario) {
         scenario.policies.pipeline.runs_backward = [middle = scenario.config.parallel.pp / 2](
                                                        int stage, int, int microbatch) {
           return stage != middle || microbatch != 1;
         };
       }},
      {"recompute-new-mask", "recomputed layers draw new dropout masks", NeedsMasksDrawnAgain,
       Decide([](Policies& p) {
         p.pipeline.recompute_mask_step = [](int32_t step) { return step + 1000; };
       })},
      {"stage-skips-a-batch", "the second stage throws a batch away before its second microbatch",
       NeedsBatches, Decide([](Policies& p) {
         p.pipeline.batches_skipped = [](int stage, int, int microbatch) {
           return stage == 1 && microbatch == 1 ? 1 : 0;
         };
       })},
  };
}

}  // namespace

std::vector<Planted> PlantedPipelineMistakes() {
  std::vector<Planted> all;
  for (std::vector<Planted> part :
       {MessageMistakes(), TiedTableMistakes(), AccumulationMistakes(), StageMistakes()}) {
    std::move(part.begin(), part.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace plumbline
