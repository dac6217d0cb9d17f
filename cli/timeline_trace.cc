#include "cli/timeline_trace.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace plumbline {
namespace {

using Json = nlohmann::ordered_json;

enum Thread { kCompute = 1, kCommunication = 2 };

double Microseconds(int64_t ns) { return static_cast<double>(ns) / 1000; }

Json NameEvent(const char* what, int process, int thread, std::string_view name) {
  return {
      {"name", what}, {"ph", "M"}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}};
}

Json SpanEvent(std::string name, int process, Thread thread, int64_t start, int64_t end) {
  return {{"name", std::move(name)},
          {"ph", "X"},
          {"pid", process},
          {"tid", static_cast<int>(thread)},
          {"ts", Microseconds(start)},
          {"dur", Microseconds(end - start)}};
}

void AddTimeline(const StageTimelineInput& input, int process, const Overlap& overlap,
                 const Timeline& timeline, Json& events) {
  events.push_back(NameEvent("process_name", process, 0, "overlap " + std::string(Name(overlap))));
  events.push_back(NameEvent("thread_name", process, kCompute, "compute"));
  events.push_back(NameEvent("thread_name", process, kCommunication, "communication"));
  for (const ComputeSpan& span : timeline.compute) {
    if (span.start == span.end) continue;
    const TimelineChunk& chunk = input.input.chunks[static_cast<size_t>(span.pass.chunk)];
    events.push_back(
        SpanEvent(fmt::format("{} microbatch {} {}", Name(span.pass.kind), span.pass.microbatch,
                              chunk.units[static_cast<size_t>(span.unit)].name),
                  process, kCompute, span.start, span.end));
  }
  for (const CollectiveSpan& span : timeline.collectives) {
    const int group =
        input.groups[static_cast<size_t>(span.chunk)][static_cast<size_t>(span.bucket)];
    Json event = SpanEvent(fmt::format("{} chunk {} bucket group {}",
                                       span.gather ? "gather" : "reduce", span.chunk, group),
                           process, kCommunication, span.start, span.end);
    event["args"] = {{"ready_us", Microseconds(span.ready)}, {"wait_us", Microseconds(span.wait)}};
    events.push_back(std::move(event));
  }
}

}  // namespace

std::string TraceJson(const StageTimelineInput& input,
                      const std::vector<std::pair<Overlap, Timeline>>& timelines) {
  Json events = Json::array();
  for (size_t i = 0; i < timelines.size(); ++i) {
    AddTimeline(input, static_cast<int>(i) + 1, timelines[i].first, timelines[i].second, events);
  }
  return Json{{"displayTimeUnit", "ns"}, {"traceEvents", std::move(events)}}.dump() + "\n";
}

}  // namespace plumbline
