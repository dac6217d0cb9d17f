// How a world runs: schedule, matching, stacks.
#ifndef PLUMBLINE_PARALLEL_COMM_WORLD_OPTIONS_H_
#define PLUMBLINE_PARALLEL_COMM_WORLD_OPTIONS_H_

#include <cstddef>
#include <cstdint>

namespace plumbline {

enum class SchedulePolicy : uint8_t { kRoundRobin, kRandom };
// `kStop`: a mismatch ends the world with its finding. `kContinue`: join what is byte-compatible,
// hang otherwise, as NCCL does, and report all.
enum class OnMismatch : uint8_t { kStop, kContinue };

struct WorldOptions {
  int size = 1;
  SchedulePolicy policy = SchedulePolicy::kRoundRobin;
  uint64_t seed = 0;  // of the random policy
  OnMismatch on_mismatch = OnMismatch::kStop;
  bool fingerprint = true;  // record and match every call
  bool checksums = true;    // of payloads, before and after
  size_t stack_bytes = 0;   // 0: a default that fits the build (sanitizers need more)
};

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_COMM_WORLD_OPTIONS_H_
