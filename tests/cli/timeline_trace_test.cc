#include "cli/timeline_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

namespace plumbline {
namespace {

using Json = nlohmann::json;

// Two units, two buckets, as in tests/parallel/data/timeline_test.cc.
StageTimelineInput Input() {
  StageTimelineInput input;
  input.input.chunks = {{{{"first", 10, 20}, {"second", 10, 20}}, {{1, 15, 8}, {0, 25, 12}}}};
  input.input.passes = {{PassKind::kForward, 0, 0}, {PassKind::kBackward, 0, 0}};
  input.groups = {{0, 1}};
  input.elements = {{100, 200}};
  return input;
}

Json Trace() {
  const StageTimelineInput input = Input();
  std::vector<std::pair<Overlap, Timeline>> timelines;
  for (const Overlap& overlap : kAllOverlaps) {
    timelines.emplace_back(overlap, MakeTimeline(input.input, overlap));
  }
  return Json::parse(TraceJson(input, timelines));
}

TEST(TimelineTraceTest, AProcessForEachOverlapAndAThreadForEachStream) {
  std::set<std::string> processes;
  std::set<std::string> threads;
  const Json trace = Trace();
  for (const Json& event : trace["traceEvents"]) {
    if (event["name"] == "process_name") processes.insert(event["args"]["name"]);
    if (event["name"] == "thread_name") threads.insert(event["args"]["name"]);
  }
  EXPECT_EQ(processes, (std::set<std::string>{"overlap none", "overlap grad", "overlap param",
                                              "overlap both"}));
  EXPECT_EQ(threads, (std::set<std::string>{"compute", "communication"}));
}

TEST(TimelineTraceTest, SpansAreInMicroseconds) {
  int found = 0;
  const Json trace = Trace();
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "X" || event["pid"] != 2) continue;
    if (event["name"] == "reduce chunk 0 bucket group 0") {
      EXPECT_EQ(event["tid"], 2);
      EXPECT_DOUBLE_EQ(event["ts"], 0.060);
      EXPECT_DOUBLE_EQ(event["dur"], 0.015);
      ++found;
    }
    if (event["name"] == "backward microbatch 0 first") {
      EXPECT_EQ(event["tid"], 1);
      EXPECT_DOUBLE_EQ(event["ts"], 0.060);
      EXPECT_DOUBLE_EQ(event["dur"], 0.020);
      ++found;
    }
  }
  EXPECT_EQ(found, 2);
}

}  // namespace
}  // namespace plumbline
