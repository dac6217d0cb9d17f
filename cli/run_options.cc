#include "cli/run_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/mesh.h"
#include "cli/data_parallel_options.h"
#include "cli/exact_options.h"
#include "cli/model_options.h"
#include "cli/settings.h"
#include "parallel/pipeline/stage_layout.h"

namespace plumbline {
namespace {

// Microbatches for each data-parallel rank when no global batch size is given.
constexpr int64_t kMicrobatches = 3;

constexpr int kMostFindings = 10000;

const std::set<std::string>& MeshAxes() {
  static const std::set<std::string> axes = {"context-parallel-size", "expert-model-parallel-size",
                                             "expert-tensor-parallel-size"};
  return axes;
}

// All at once, so that a pasted line needs one look.
void Refuse(const GivenArguments& given, const std::set<std::string>& allowed) {
  std::vector<std::string> refused;
  for (const Argument& argument : AllArguments()) {
    const std::string& name = argument.name;
    if (argument.kind != ArgumentClass::kRefused || !given.Has(name) || allowed.contains(name)) {
      continue;
    }
    const GivenArgument& found = *given.Find(name);
    const bool flag = argument.arity == Arity::kNone;
    if (!flag && found.values.size() == 1 && IsNeutral(argument, found.values[0])) continue;
    refused.push_back(fmt::format("{}{}{} ({})", given.Label(name), flag ? "" : " ",
                                  flag ? "" : fmt::format("{}", fmt::join(found.values, " ")),
                                  argument.note));
  }
  if (!refused.empty()) {
    throw InvalidArgument("not modelled yet: {}", fmt::join(refused, "; "));
  }
}

int64_t Positive(const GivenArguments& given, const std::string& name, int64_t otherwise) {
  const int64_t value = given.Integer(name).value_or(otherwise);
  if (value < 1) throw InvalidArgument("{} {}: must be at least 1", given.Label(name), value);
  return value;
}

uint64_t Seed(const GivenArguments& given, const std::string& name, uint64_t otherwise) {
  const std::optional<int64_t> value = given.Integer(name);
  if (!value.has_value()) return otherwise;
  if (*value < 0) throw InvalidArgument("{} {}: must be at least 0", given.Label(name), *value);
  return static_cast<uint64_t>(*value);
}

void ReadOrder(const GivenArguments& given, ParallelConfig* parallel) {
  if (given.Flag("use-tp-pp-dp-mapping")) parallel->order = "tp-cp-ep-pp-dp";
  if (const std::optional<std::string> order = given.Text("order")) {
    if (given.Flag("use-tp-pp-dp-mapping")) {
      throw InvalidArgument("--order and --use-tp-pp-dp-mapping: give one");
    }
    parallel->order = *order;
  }
}

// tp, dp and sequence parallelism of a run of `verify`.
void ReadLayout(const CommandLine& line, ParallelConfig* parallel,
                std::vector<std::string>* notes) {
  const GivenArguments& given = line.given;
  given.ReadInteger("tensor-model-parallel-size", &parallel->tp);
  given.ReadInteger("data-parallel-size", &parallel->dp);
  Positive(given, "tensor-model-parallel-size", 1);
  Positive(given, "data-parallel-size", 1);
  given.ReadInteger("pipeline-model-parallel-size", &parallel->pp);
  Positive(given, "pipeline-model-parallel-size", 1);
  const int64_t model_parallel = int64_t{1} * parallel->tp * parallel->pp;
  const bool dp_given = given.Has("data-parallel-size");
  int64_t world_size = 0;
  std::string source;
  if (given.Has("world-size")) {
    world_size = Positive(given, "world-size", 1);
    source = given.Label("world-size");
  } else if (!dp_given && line.launcher_world_size > 0) {
    world_size = line.launcher_world_size;
    source = "the launcher's world size";
  }
  if (world_size > 0) {
    const std::string stages =
        parallel->pp == 1 ? ""
                          : fmt::format(" times --pipeline-model-parallel-size {}", parallel->pp);
    if (world_size % model_parallel != 0 || world_size / model_parallel > 65536) {
      throw InvalidArgument("{} {}: must be a multiple of --tensor-model-parallel-size {}{}",
                            source, world_size, parallel->tp, stages);
    }
    if (dp_given && world_size != model_parallel * parallel->dp) {
      throw InvalidArgument(
          "{} {}: --tensor-model-parallel-size {}{} times --data-parallel-size {} is {}", source,
          world_size, parallel->tp, stages, parallel->dp, model_parallel * parallel->dp);
    }
    parallel->dp = static_cast<int>(world_size / model_parallel);
  }
  parallel->sequence_parallel = given.Flag("sequence-parallel");
  if (parallel->sequence_parallel && parallel->tp == 1) {
    parallel->sequence_parallel = false;
    notes->push_back("--sequence-parallel is switched off: --tensor-model-parallel-size is 1");
  }
  ReadOrder(given, parallel);
  using Policy = GqaPolicy;
  const auto policy = given.Choice<Policy>(
      "gqa-policy", {{"gather_qkv", Policy::kGatherQkv}, {"replicate_kv", Policy::kReplicateKv}});
  parallel->gqa_policy = policy.value_or(parallel->gqa_policy);
}

// Megatron's two ways to say how many chunks a stage has.
void ReadVirtualStages(const GivenArguments& given, int64_t num_layers, ParallelConfig* parallel) {
  const std::string by_chunks = "num-virtual-stages-per-pipeline-rank";
  const std::string by_layers = "num-layers-per-virtual-pipeline-stage";
  given.ReadInteger(by_chunks, &parallel->virtual_stages);
  Positive(given, by_chunks, 1);
  if (!given.Has(by_layers)) return;
  if (given.Has(by_chunks)) {
    throw InvalidArgument("{} and {}: give one", given.Label(by_chunks), given.Label(by_layers));
  }
  const int64_t layers = Positive(given, by_layers, 1);
  if (num_layers % parallel->pp != 0 || num_layers / parallel->pp % layers != 0) {
    throw InvalidArgument(
        "{} {}: --num-layers {} over --pipeline-model-parallel-size {} stages must be a multiple "
        "of it",
        given.Label(by_layers), layers, num_layers, parallel->pp);
  }
  parallel->virtual_stages = static_cast<int>(num_layers / parallel->pp / layers);
}

// Also settles how many layers a model has by default: one for each chunk.
void ReadPipeline(const GivenArguments& given, RunConfig* config) {
  ParallelConfig* parallel = &config->parallel;
  parallel->schedule = given.Text("schedule").value_or("");
  parallel->pipeline_layout = given.Text("pipeline-model-parallel-layout").value_or("");
  ReadVirtualStages(given, config->model.num_layers, parallel);
  given.ReadInteger("microbatch-group-size-per-virtual-pipeline-stage",
                    &parallel->microbatch_group_size);
  Positive(given, "microbatch-group-size-per-virtual-pipeline-stage", 1);
  parallel->decoder_first_pipeline_num_layers =
      given.Has("decoder-first-pipeline-num-layers")
          ? Positive(given, "decoder-first-pipeline-num-layers", 1)
          : 0;
  parallel->decoder_last_pipeline_num_layers =
      given.Has("decoder-last-pipeline-num-layers")
          ? Positive(given, "decoder-last-pipeline-num-layers", 1)
          : 0;
  if (given.Text("recompute-granularity") == "selective") {
    throw InvalidArgument(
        "--recompute-granularity selective: recomputation of parts of a layer is not modelled; "
        "expected full");
  }
  const auto recompute = given.Choice<RecomputeGranularity>(
      "recompute-granularity", {{"full", RecomputeGranularity::kFull}});
  parallel->recompute_granularity = recompute.value_or(RecomputeGranularity::kNone);
  const int64_t chunks = int64_t{1} * parallel->pp * parallel->virtual_stages;
  if (!given.Has("num-layers") && config->model.num_layers < chunks) {
    config->model.num_layers = chunks;
  }
}

// Microbatches of a data-parallel rank when no global batch size is given.
int64_t DefaultMicrobatches(const RunConfig& config) {
  const ParallelConfig& parallel = config.parallel;
  if (StageLayout(config).chunks() == 1) return kMicrobatches;
  return int64_t{2} * std::max(parallel.pp, parallel.microbatch_group_size);
}

void ReadTraining(const GivenArguments& given, RunConfig* config) {
  TrainConfig* train = &config->train;
  train->seed = Seed(given, "seed", train->seed);
  train->steps = Positive(given, "train-iters", train->steps);
  train->micro_batch_size = Positive(given, "micro-batch-size", train->micro_batch_size);
  constexpr int64_t kMost = int64_t{1} << 40;
  if (train->micro_batch_size > kMost) {
    throw InvalidArgument("{} {}: too large", given.Label("micro-batch-size"),
                          train->micro_batch_size);
  }
  train->global_batch_size =
      Positive(given, "global-batch-size",
               train->micro_batch_size * config->parallel.dp *
                   (given.Has("global-batch-size") ? 1 : DefaultMicrobatches(*config)));
  train->calculate_per_token_loss = given.Flag("calculate-per-token-loss");
  const auto optimizer = given.Choice<OptimizerKind>(
      "optimizer", {{"adam", OptimizerKind::kAdam}, {"sgd", OptimizerKind::kSgd}});
  train->optimizer = optimizer.value_or(train->optimizer);
  given.ReadNumber("lr", &train->lr);
  given.ReadNumber("weight-decay", &train->weight_decay);
  given.ReadNumber("clip-grad", &train->clip_grad);
  given.ReadNumber("adam-beta1", &train->adam_beta1);
  given.ReadNumber("adam-beta2", &train->adam_beta2);
  given.ReadNumber("adam-eps", &train->adam_eps);
  given.ReadNumber("sgd-momentum", &train->sgd_momentum);
  given.ReadNumber("loss-mask-keep", &train->loss_mask_keep);
  const bool positions = given.Flag("reset-position-ids");
  const bool mask = given.Flag("reset-attention-mask");
  const bool packed = given.Flag("packed-documents") || (positions && mask);
  if (positions != mask) {
    throw InvalidArgument(
        "--reset-position-ids and --reset-attention-mask: only both together are "
        "modelled, as packed documents");
  }
  if (packed && given.Flag("no-packed-documents")) {
    throw InvalidArgument("--no-packed-documents contradicts {}",
                          positions ? "--reset-position-ids" : "--packed-documents");
  }
  if (given.Flag("no-packed-documents")) train->packed_documents = false;
}

void ReadProgram(const CommandLine& line, RunOptions* options) {
  const GivenArguments& given = line.given;
  options->data = given.Text("data").value_or("");
  options->plant = given.Text("plant").value_or("");
  options->json = line.json;
  options->timings = given.Flag("timings");
  ReadExact(given, options->config.train.seed, &options->config.dtype, &options->exact);
  ReadLowPrecision(given, &options->config.dtype);
  options->schedule_seed = Seed(given, "schedule-seed", 0);
  const auto random = given.Choice<bool>("policy", {{"round_robin", false}, {"random", true}});
  options->random_schedule = random.value_or(given.Has("schedule-seed"));
  if (!options->random_schedule && given.Has("schedule-seed")) {
    throw InvalidArgument("--schedule-seed needs --policy random");
  }
  options->continue_on_mismatch =
      given.Choice<bool>("on-mismatch", {{"stop", false}, {"continue", true}}).value_or(false);
  const int64_t findings = Positive(given, "max-findings", options->max_findings);
  if (findings > kMostFindings) {
    throw InvalidArgument("{} {}: must be at most {}", given.Label("max-findings"), findings,
                          kMostFindings);
  }
  options->max_findings = static_cast<int>(findings);
}

}  // namespace

RunConfig FixtureConfig() {
  RunConfig config;
  TransformerConfig& model = config.model;
  model.num_layers = 2;
  model.hidden_size = 64;
  model.num_attention_heads = 8;
  model.num_query_groups = 4;
  model.vocab_size = 251;
  model.seq_length = 16;
  model.hidden_dropout = 0.1;
  model.attention_dropout = 0.1;
  TrainConfig& train = config.train;
  train.steps = 3;
  train.micro_batch_size = 2;
  train.packed_documents = true;
  train.loss_mask_keep = 0.8;
  config.parallel.tp = 2;
  config.parallel.dp = 2;
  return config;
}

RunOptions MakeRunOptions(const CommandLine& line) {
  const GivenArguments& given = line.given;
  Refuse(given, {});
  RunOptions options;
  options.config = FixtureConfig();
  for (const Argument& argument : AllArguments()) {
    if (argument.kind == ArgumentClass::kIgnored && given.Has(argument.name)) {
      options.ignored.push_back(argument.name);
    }
  }
  ReadLayout(line, &options.config.parallel, &options.notes);
  ReadModel(given, options.config.parallel.tp, &options.config.model, &options.notes);
  ReadPipeline(given, &options.config);
  ReadTraining(given, &options.config);
  ReadProgram(line, &options);
  ReadDataParallel(given, &options.config, &options.notes);
  Validate(options.config);
  ScheduleConfigOf(options.config);          // refuses an illegal pipeline
  const Mesh mesh(options.config.parallel);  // refuses a wrong order
  options.settings = DescribeSettings(options.config, given);
  options.repeat = RepeatLine(options.config, given);
  return options;
}

RunConfig MakeDescribedConfig(const CommandLine& line, std::vector<std::string>* notes) {
  const GivenArguments& given = line.given;
  Refuse(given, {"context-parallel-size"});
  RunConfig config = FixtureConfig();
  ReadLayout(line, &config.parallel, notes);
  Positive(given, "context-parallel-size", 1);
  given.ReadInteger("context-parallel-size", &config.parallel.cp);
  ReadModel(given, config.parallel.tp, &config.model, notes);
  ReadPipeline(given, &config);
  ReadTraining(given, &config);
  ExactOptions exact;
  ReadExact(given, config.train.seed, &config.dtype, &exact);
  ReadLowPrecision(given, &config.dtype);
  ReadDataParallel(given, &config, notes);
  config.parallel.data.gradient_buffers = true;
  ValidateDescription(config);
  ScheduleConfigOf(config);
  return config;
}

RunConfig MakeLayoutConfig(const CommandLine& line) {
  const GivenArguments& given = line.given;
  Refuse(given, MeshAxes());
  RunConfig config = FixtureConfig();
  ParallelConfig& parallel = config.parallel;
  parallel.tp = 1;
  parallel.dp = 1;
  std::vector<std::string> notes;
  ReadLayout(line, &parallel, &notes);
  given.ReadInteger("context-parallel-size", &parallel.cp);
  given.ReadInteger("expert-model-parallel-size", &parallel.ep);
  given.ReadInteger("expert-tensor-parallel-size", &parallel.etp);
  for (const std::string& axis : MeshAxes()) Positive(given, axis, 1);
  ReadModel(given, parallel.tp, &config.model, &notes);
  ReadPipeline(given, &config);
  return config;
}

}  // namespace plumbline
