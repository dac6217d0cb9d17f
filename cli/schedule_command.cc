#include "cli/schedule_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "cli/arguments.h"
#include "cli/command_options.h"
#include "cli/output_file.h"
#include "cli/schedule_picture.h"
#include "cli/schedule_svg.h"
#include "parallel/pipeline/schedule.h"
#include "parallel/pipeline/schedule_builder.h"
#include "parallel/pipeline/simulate.h"

namespace plumbline {
namespace {

using Json = nlohmann::ordered_json;

struct Request {
  ScheduleConfig config;
  Costs costs;
  std::optional<int> width;
  std::optional<std::string> svg;
  bool json = false;
  std::string help;  // what to print instead
};

constexpr OptionRow kOptions[] = {
    {"--schedule", "NAME",
     "naive, gpipe, 1f1b, interleaved, zb-h1 or zb-h2; without it what Megatron would run"},
    {"--pp,--pipeline-model-parallel-size", "P", "pipeline stages; 1"},
    {"--microbatches", "M", "microbatches of a step on each pipeline; 1"},
    {"--virtual,--num-virtual-stages-per-pipeline-rank", "V",
     "model chunks of a stage, for the interleaved schedule; 1"},
    {"--microbatch-group-size-per-virtual-pipeline-stage", "G",
     "microbatches that a chunk takes in a row; P"},
    {"--cost-forward", "TIME", "of a microbatch through a chunk, in any unit; 1"},
    {"--cost-backward", "TIME", "of both parts of a backward together; 2"},
    {"--cost-backward-weight", "TIME",
     "of its weight part, which zb-h1 and zb-h2 set apart; half of --cost-backward"},
    {"--cost-communication", "TIME", "from a send to the arrival; 0"},
    {"--svg", "FILE", "write the picture as SVG too"},
    {"--width", "COLUMNS", "of the picture in text; 0: no limit; the terminal's, or 120"},
};

void CheckExtras(const CLI::App& app) {
  const std::vector<std::string> extras = app.remaining();
  if (extras.empty()) return;
  const std::string flag = extras.front().substr(0, extras.front().find('='));
  std::vector<std::string> names = NamesOf(kOptions);
  names.insert(names.end(), {"--json", "--help"});
  const std::string nearest = NearestWord(flag, names);
  throw InvalidArgument(
      "unknown argument '{}'{}", flag,
      nearest.empty() ? "; see plumbline schedule --help" : "; did you mean '" + nearest + "'?");
}

void ReadCosts(const CommandOptions& options, Costs* costs) {
  int64_t backward = costs->backward();
  options.Read("--cost-forward", &costs->forward);
  options.Read("--cost-backward", &backward);
  costs->backward_weight = backward / 2;
  options.Read("--cost-backward-weight", &costs->backward_weight);
  if (costs->backward_weight > backward) {
    throw InvalidArgument("--cost-backward-weight {}: expected at most --cost-backward, {}",
                          costs->backward_weight, backward);
  }
  costs->backward_input = backward - costs->backward_weight;
  options.Read("--cost-communication", &costs->communication);
}

Request ParseRequest(const std::vector<std::string>& words) {
  Request request;
  CLI::App app(kScheduleSummary, "plumbline schedule");
  app.footer(
      "Examples:\n"
      "  plumbline schedule --pp 4 --microbatches 8 --schedule 1f1b\n"
      "  plumbline schedule --pp 4 --microbatches 8 --virtual 2 --svg schedule.svg\n"
      "  plumbline schedule --pp 4 --microbatches 8 --schedule zb-h1 --cost-forward 3 "
      "--cost-backward 5 --cost-backward-weight 2");
  AddOptions(kOptions, app);
  app.add_flag("--json", request.json, "one JSON object instead of text: all operations and times");
  request.help = ParseWords(words, app);
  if (!request.help.empty()) return request;
  CheckExtras(app);
  const CommandOptions options = CollectOptions(kOptions, app);
  ScheduleConfig& config = request.config;
  options.Read("--pp", &config.pp);
  options.Read("--microbatches", &config.microbatches);
  options.Read("--virtual", &config.virtual_chunks);
  const std::string group = "--microbatch-group-size-per-virtual-pipeline-stage";
  options.Read(group, &config.microbatch_group_size);
  if (options.Text(group).has_value() && config.microbatch_group_size == 0) {
    throw InvalidArgument("{} must be at least 1; it is 0", group);
  }
  config.kind = DefaultScheduleKind(config.virtual_chunks);
  if (const auto name = options.Text("--schedule")) config.kind = ParseScheduleKind(*name);
  ReadCosts(options, &request.costs);
  if (options.Text("--width").has_value()) {
    request.width = 0;
    options.Read("--width", &*request.width);
  }
  request.svg = options.Text("--svg");
  return request;
}

std::string Plural(int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string Title(const ScheduleConfig& config) {
  std::string text = fmt::format("{}: {}", Name(config.kind), Plural(config.pp, "stage"));
  if (config.virtual_chunks > 1) text += fmt::format(" of {} chunks", config.virtual_chunks);
  text += ", " + Plural(config.microbatches, "microbatch");
  if (config.microbatches != 1) text.insert(text.size() - 1, "e");
  if (config.kind == ScheduleKind::kInterleaved && config.group_size() != config.pp) {
    text += fmt::format(" in groups of {}", config.group_size());
  }
  return text;
}

std::string CostText(const ScheduleConfig& config, const Costs& costs) {
  std::string text = fmt::format("forward {}", costs.forward);
  if (SplitsBackward(config.kind)) {
    text += fmt::format(", backward {} (input part) and {} (weight part)", costs.backward_input,
                        costs.backward_weight);
  } else {
    text += fmt::format(", backward {}", costs.backward());
  }
  if (costs.communication > 0) text += fmt::format(", communication {}", costs.communication);
  return text;
}

std::string FractionText(const Fraction& fraction) {
  return fmt::format("{:.2f} % ({}/{})", 100 * fraction.value(), fraction.numerator,
                     fraction.denominator);
}

std::string FormulaName(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::kNaive:
      return "(p - 1) / p";
    case ScheduleKind::kGpipe:
    case ScheduleKind::kOneForwardOneBackward:
      return "(p - 1) / (m + p - 1)";
    case ScheduleKind::kInterleaved:
      return "(p - 1) / (v m + p - 1)";
    case ScheduleKind::kZeroBubbleH1:
      return "idle / (m (F + B + W) + idle), idle = (p - 1) (F + B - W)";
    case ScheduleKind::kZeroBubbleH2:
      return "idle / (m (F + B + W) + idle), idle = (p - 1) max(0, F + B - 2 W)";
  }
  throw Internal("a schedule kind of value {}", static_cast<int>(kind));
}

// Why there is no figure by formula.
std::string FormulaCondition(const ScheduleConfig& config, const Costs& costs) {
  if (costs.communication > 0) return "holds without communication";
  if (config.kind == ScheduleKind::kZeroBubbleH1) return "holds for m >= p and F >= W > 0";
  if (config.kind == ScheduleKind::kZeroBubbleH2) {
    return "holds for m >= 2 p - 1 and F >= W or F >= B";
  }
  return "holds for costs above 0";
}

std::string Summary(const Schedule& schedule, const Simulation& simulation, const Costs& costs) {
  const ScheduleConfig& config = schedule.config;
  const auto formula = BubbleFormula(config, costs);
  std::vector<std::vector<std::string>> figures = {
      {"makespan", fmt::format("{}", simulation.makespan)},
      {"bubble", FractionText(simulation.bubble)},
      {"by formula", formula.has_value() ? FractionText(*formula) + " = " + FormulaName(config.kind)
                                         : "none: " + FormulaName(config.kind) + " " +
                                               FormulaCondition(config, costs)}};
  std::string text = FormatTable(figures, {}) + "\n";
  std::vector<std::vector<std::string>> rows = {
      {"stage", "busy", "idle within its span", "peak live activations", "bound"}};
  for (int stage = 0; stage < config.pp; ++stage) {
    const auto at = static_cast<size_t>(stage);
    rows.push_back({fmt::format("{}", stage), fmt::format("{}", simulation.busy[at]),
                    fmt::format("{}", simulation.stage_span[at] - simulation.busy[at]),
                    fmt::format("{}", simulation.peak_live[at]),
                    fmt::format("{}", LiveActivationBound(config, stage))});
  }
  text += FormatTable(rows, {0, 1, 2, 3, 4});
  if (config.virtual_chunks > 1) {
    text += "\nA live activation is one of one microbatch and one chunk; costs are of a chunk.\n";
  }
  return text;
}

Json FractionJson(const Fraction& fraction) {
  return {{"numerator", fraction.numerator},
          {"denominator", fraction.denominator},
          {"value", fraction.value()}};
}

Json OperationJson(const ScheduleConfig& config, int stage, const Operation& operation,
                   const TimeSpan& span) {
  Json json = {{"kind", Name(operation.kind)},
               {"microbatch", operation.microbatch},
               {"chunk", operation.chunk}};
  if (!IsCompute(operation.kind)) {
    json["peer_stage"] = operation.peer_stage;
    json["peer_chunk"] = operation.peer_chunk;
    json["tag"] = MessageTag(config, stage, operation);
    json["with_next"] = operation.with_next;
  }
  json["start"] = span.start;
  json["end"] = span.end;
  return json;
}

Json ToJson(const Schedule& schedule, const Simulation& simulation, const Costs& costs) {
  const ScheduleConfig& config = schedule.config;
  const auto formula = BubbleFormula(config, costs);
  Json stages = Json::array();
  for (int stage = 0; stage < config.pp; ++stage) {
    const auto at = static_cast<size_t>(stage);
    Json operations = Json::array();
    for (size_t i = 0; i < schedule.stages[at].size(); ++i) {
      operations.push_back(
          OperationJson(config, stage, schedule.stages[at][i], simulation.spans[at][i]));
    }
    stages.push_back({{"stage", stage},
                      {"busy", simulation.busy[at]},
                      {"span", simulation.stage_span[at]},
                      {"peak_live_activations", simulation.peak_live[at]},
                      {"live_activation_bound", LiveActivationBound(config, stage)},
                      {"operations", std::move(operations)}});
  }
  return {{"schedule", Name(config.kind)},
          {"pipeline_model_parallel_size", config.pp},
          {"virtual_chunks", config.virtual_chunks},
          {"microbatches", config.microbatches},
          {"microbatch_group_size", config.group_size()},
          {"costs",
           {{"forward", costs.forward},
            {"backward_input", costs.backward_input},
            {"backward_weight", costs.backward_weight},
            {"communication", costs.communication}}},
          {"makespan", simulation.makespan},
          {"bubble", FractionJson(simulation.bubble)},
          {"bubble_by_formula", formula.has_value() ? FractionJson(*formula) : Json(nullptr)},
          {"stages", std::move(stages)}};
}

// Of the terminal on standard output; 120 without one.
int TerminalWidth() {
  winsize size = {};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 120;
}

}  // namespace

int RunSchedule(const std::vector<std::string>& words, const Console& console) {
  const Request request = ParseRequest(words);
  if (!request.help.empty()) {
    console.out << request.help;
    return 0;
  }
  const Schedule schedule = MakeSchedule(request.config);
  const Simulation simulation = Simulate(schedule, request.costs);
  PL_CHECK(simulation.ran());
  if (const auto formula = BubbleFormula(request.config, request.costs)) {
    PL_CHECK(FractionText(simulation.bubble) == FractionText(*formula));
  }
  const std::string costs = CostText(request.config, request.costs);
  std::string text;
  if (request.json) {
    text = ToJson(schedule, simulation, request.costs).dump() + "\n";
  } else {
    const PictureStyle style{.colour = console.colour,
                             .width = request.width.value_or(TerminalWidth())};
    text = Paint(console, Colour::kBold, Title(request.config)) + "; " + costs + "\n\n" +
           SchedulePicture(schedule, simulation, style) + "\n" +
           Summary(schedule, simulation, request.costs);
  }
  if (request.svg.has_value()) {
    WriteFileAtomically(
        "--svg", *request.svg,
        ScheduleSvg(schedule, simulation, Title(request.config),
                    fmt::format("bubble {}; makespan {}; {}", FractionText(simulation.bubble),
                                simulation.makespan, costs)));
  }
  console.out << text;
  return 0;
}

}  // namespace plumbline
