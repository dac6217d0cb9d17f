// What the timeline of one pipeline stage needs to know, from a run and what things cost.
//
// A unit is a module. It computes in time proportional to its parameters, the output layer to the
// word table though that be the embedding's, and the embedding, which only looks rows up, in none.
// A collective of n ranks runs
// around a ring: a latency, and (n - 1) / n of its bytes, twice for an all_reduce, at the bandwidth
// of a rank. With several optimizer instances an all_reduce of the shard between them follows.
#ifndef PLUMBLINE_CLI_TIMELINE_INPUT_H_
#define PLUMBLINE_CLI_TIMELINE_INPUT_H_

#include <cstdint>
#include <vector>

#include "base/config.h"
#include "cli/stage_buffers.h"
#include "parallel/data/timeline.h"

namespace plumbline {

// Defaults: 2 flop per parameter and token forward, 8192 tokens, 400 Tflop/s; a 400 Gbit/s link.
struct TimelineCosts {
  int64_t forward_ps = 40;  // of one microbatch, per parameter
  int64_t backward_ps = 80;
  int64_t latency_ns = 10'000;
  int64_t bandwidth_gbs = 50;  // 1e9 bytes a second: bytes in a nanosecond
};

// Buckets of the input stand for bucket groups, in the order of readiness.
struct StageTimelineInput {
  TimelineInput input;
  std::vector<std::vector<int>> groups;        // by chunk and bucket of `input`: the group's number
  std::vector<std::vector<int64_t>> elements;  // that it holds, padding included
};

// Errors: InvalidArgument for strategies from optim_grads on, which communicate more often than the
// timeline knows.
StageTimelineInput MakeTimelineInput(const RunConfig& config, const StageBuffers& stage,
                                     const TimelineCosts& costs);

}  // namespace plumbline

#endif  // PLUMBLINE_CLI_TIMELINE_INPUT_H_
