// plumbline timeline.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/error.h"
#include "cli/describing_commands.h"
#include "cli/output_file.h"
#include "cli/run_options.h"
#include "cli/timeline_input.h"
#include "cli/timeline_trace.h"

namespace plumbline {
namespace {

using Json = nlohmann::ordered_json;
using Timelines = std::vector<std::pair<Overlap, Timeline>>;

struct Request {
  RunConfig config;
  std::vector<std::string> notes;
  TimelineCosts costs;
  int stage = 0;
  Overlap shown;  // whose collectives are listed
};

Overlap ParseOverlap(const std::string& text) {
  for (const Overlap& overlap : kAllOverlaps) {
    if (text == Name(overlap)) return overlap;
  }
  throw InvalidArgument("--overlap {}: expected none, grad, param or both", text);
}

Request ParseRequest(const CommandLine& line) {
  Request request;
  request.config = MakeDescribedConfig(line, &request.notes);
  DataParallelConfig& data = request.config.parallel.data;
  request.shown = {data.overlap_grad_reduce, data.overlap_param_gather};
  if (const auto text = line.options.Text("--overlap")) request.shown = ParseOverlap(*text);
  data.overlap_grad_reduce = true;  // the same buckets whatever overlaps
  std::erase_if(request.notes, [](const std::string& note) { return note.starts_with("--ddp-"); });
  line.options.Read("--stage", &request.stage);
  if (request.stage >= request.config.parallel.pp) {
    throw InvalidArgument("--stage {}: there are {} stages", request.stage,
                          request.config.parallel.pp);
  }
  line.options.Read("--forward-ps", &request.costs.forward_ps);
  line.options.Read("--backward-ps", &request.costs.backward_ps);
  line.options.Read("--latency-ns", &request.costs.latency_ns);
  line.options.Read("--bandwidth-gbs", &request.costs.bandwidth_gbs);
  return request;
}

std::string Number(int64_t value) { return fmt::format("{}", value); }

int64_t ComputeTime(const Timeline& timeline) {
  int64_t sum = 0;
  for (const ComputeSpan& span : timeline.compute) sum += span.end - span.start;
  return sum;
}

std::string Title(const Request& request) {
  const ParallelConfig& parallel = request.config.parallel;
  const TimelineCosts& costs = request.costs;
  std::string text = fmt::format(
      "stage {} of {}: {} over {} ranks, {} microbatch{}, {} weights, {} gradients\n",
      request.stage, parallel.pp, Name(parallel.data.sharding_strategy),
      parallel.dp * parallel.cp / parallel.data.num_distributed_optimizer_instances,
      request.config.num_microbatches(), request.config.num_microbatches() == 1 ? "" : "es",
      Name(request.config.dtype), Name(request.config.grad_dtype()));
  text += fmt::format(
      "costs: forward {} ps and backward {} ps per parameter and microbatch; a collective {} ns "
      "and its bytes around a ring at {} GB/s\n",
      costs.forward_ps, costs.backward_ps, costs.latency_ns, costs.bandwidth_gbs);
  for (const std::string& note : request.notes) text += "note: " + note + "\n";
  return text;
}

std::string AblationTable(const Timelines& timelines) {
  std::vector<std::vector<std::string>> rows = {
      {"overlap", "step", "compute", "communication", "overlapped", "exposed"}};
  for (const auto& [overlap, timeline] : timelines) {
    const bool refused = overlap.param && !overlap.grad;
    rows.push_back({std::string(Name(overlap)) + (refused ? " *" : ""), Number(timeline.makespan),
                    Number(ComputeTime(timeline)), Number(timeline.communication),
                    Number(timeline.overlapped), Number(timeline.exposed())});
  }
  return FormatTable(rows, {1, 2, 3, 4, 5}) +
         "* of this model alone: Megatron refuses --overlap-param-gather without "
         "--overlap-grad-reduce\n";
}

std::string CollectiveTable(const StageTimelineInput& input, const Overlap& overlap,
                            const Timeline& timeline) {
  std::vector<std::vector<std::string>> rows = {
      {"collective", "chunk", "group", "elements", "ready", "start", "end", "wait"}};
  for (const CollectiveSpan& span : timeline.collectives) {
    const auto chunk = static_cast<size_t>(span.chunk);
    const auto bucket = static_cast<size_t>(span.bucket);
    rows.push_back({span.gather ? "gather" : "reduce", Number(span.chunk),
                    Number(input.groups[chunk][bucket]), Number(input.elements[chunk][bucket]),
                    Number(span.ready), Number(span.start), Number(span.end), Number(span.wait)});
  }
  if (rows.size() == 1) return "no collectives: nobody to share with\n";
  return fmt::format("overlap {}\n", Name(overlap)) + FormatTable(rows, {1, 2, 3, 4, 5, 6, 7});
}

Json TimelineJson(const StageTimelineInput& input, const Overlap& overlap,
                  const Timeline& timeline) {
  Json collectives = Json::array();
  for (const CollectiveSpan& span : timeline.collectives) {
    const auto chunk = static_cast<size_t>(span.chunk);
    const auto bucket = static_cast<size_t>(span.bucket);
    collectives.push_back({{"collective", span.gather ? "gather" : "reduce"},
                           {"chunk", span.chunk},
                           {"group", input.groups[chunk][bucket]},
                           {"elements", input.elements[chunk][bucket]},
                           {"ready", span.ready},
                           {"start", span.start},
                           {"end", span.end},
                           {"wait", span.wait}});
  }
  return {{"overlap", Name(overlap)},
          {"step", timeline.makespan},
          {"compute", ComputeTime(timeline)},
          {"communication", timeline.communication},
          {"overlapped", timeline.overlapped},
          {"exposed", timeline.exposed()},
          {"collectives", std::move(collectives)}};
}

std::string ToJson(const Request& request, const StageTimelineInput& input,
                   const Timelines& timelines) {
  Json list = Json::array();
  for (const auto& [overlap, timeline] : timelines) {
    list.push_back(TimelineJson(input, overlap, timeline));
  }
  const TimelineCosts& costs = request.costs;
  const Json json = {{"stage", request.stage},
                     {"costs",
                      {{"forward_ps", costs.forward_ps},
                       {"backward_ps", costs.backward_ps},
                       {"latency_ns", costs.latency_ns},
                       {"bandwidth_gbs", costs.bandwidth_gbs}}},
                     {"timelines", std::move(list)}};
  return json.dump(2) + "\n";
}

}  // namespace

int RunTimeline(const CommandLine& line, const Console& console) {
  const Request request = ParseRequest(line);
  const StageBuffers stage = StageBuffersOf(request.config, request.stage);
  const StageTimelineInput input = MakeTimelineInput(request.config, stage, request.costs);
  Timelines timelines;
  for (const Overlap& overlap : kAllOverlaps) {
    timelines.emplace_back(overlap, MakeTimeline(input.input, overlap));
  }
  std::string text;
  if (line.json) {
    text = ToJson(request, input, timelines);
  } else {
    text = Title(request) + "\n" + AblationTable(timelines) + "\n";
    text += CollectiveTable(input, request.shown, MakeTimeline(input.input, request.shown));
  }
  if (const auto file = line.options.Text("--perfetto")) {
    WriteFileAtomically("--perfetto", *file, TraceJson(input, timelines));
  }
  console.out << text;
  return 0;
}

}  // namespace plumbline
