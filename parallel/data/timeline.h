// One step of one rank on paper: when each bucket's collectives run beside the computation, and how
// much of them nothing hides. Times are whole nanoseconds, so every figure is exact.
//
// Two streams. Compute runs the passes of the step one after another, unit by unit of the model;
// waits for other pipeline stages are left out. Communication runs one collective at a time, in the
// order of issue:
//   - gathers of weights (distributed optimizer), bucket by bucket in the order of first use. With
//     overlap the first is issued at the start and each next one when the one before is used, and a
//     unit waits for what it uses; without, all come before the first forward.
//   - reductions of gradients. With overlap a bucket's is issued by its last gradient in the
//     backward of the last microbatch, and the step's end waits for all; without, all come after
//     the last backward.
// The update itself takes no time.
//
// Source:   Megatron-Core distributed/param_and_grad_buffer.py, start_grad_sync and
//           finish_param_sync; distributed_data_parallel.py, the hooks.
#ifndef PLUMBLINE_PARALLEL_DATA_TIMELINE_H_
#define PLUMBLINE_PARALLEL_DATA_TIMELINE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace plumbline {

struct TimelineUnit {
  std::string name;
  int64_t forward_ns = 0;
  int64_t backward_ns = 0;  // of both parts
};

struct TimelineBucket {
  // The first unit, in the model's order, that has a parameter in it: the forward needs the weights
  // there, and the backward brings the last gradient.
  int first_unit = 0;
  int64_t reduce_ns = 0;
  int64_t gather_ns = 0;  // 0: weights are not shared out
};

struct TimelineChunk {
  std::vector<TimelineUnit> units;
  std::vector<TimelineBucket> buckets;  // in the order of readiness: from the model's end
};

// A zero-bubble schedule splits a backward in two; gradients of weights come with the second.
enum class PassKind : uint8_t { kForward, kBackward, kBackwardInput, kBackwardWeight };
std::string_view Name(PassKind kind);  // "forward", "backward_input"

struct TimelinePass {
  PassKind kind = PassKind::kForward;
  int chunk = 0;
  int microbatch = 0;
};

struct TimelineInput {
  std::vector<TimelineChunk> chunks;
  std::vector<TimelinePass> passes;  // in the order in which the stage runs them
};

struct Overlap {
  bool grad = false;
  bool param = false;
};
// "none", "grad", "param", "both". Megatron refuses "param"; the model knows it.
std::string_view Name(const Overlap& overlap);
inline constexpr Overlap kAllOverlaps[] = {
    {false, false}, {true, false}, {false, true}, {true, true}};

struct ComputeSpan {
  TimelinePass pass;
  int unit = 0;
  int64_t start = 0;
  int64_t end = 0;
};

struct CollectiveSpan {
  bool gather = false;  // else a reduction
  int chunk = 0;
  int bucket = 0;
  int64_t ready = 0;  // of a reduction: its last gradient; of a gather: its issue
  int64_t start = 0;
  int64_t end = 0;
  int64_t wait = 0;  // that compute stands still for it
};

struct Timeline {
  std::vector<ComputeSpan> compute;
  std::vector<CollectiveSpan> collectives;  // in the order of start; none that takes no time
  int64_t makespan = 0;
  int64_t communication = 0;  // of the union of all collectives
  int64_t overlapped = 0;     // of it, while compute runs
  int64_t exposed() const { return communication - overlapped; }
};

// Errors: InvalidArgument for a time that is negative, or a sum of times beyond 2^62.
Timeline MakeTimeline(const TimelineInput& input, const Overlap& overlap);

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_DATA_TIMELINE_H_
