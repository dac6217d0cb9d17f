// What each operation of a schedule waits for, found by looking, so that a schedule that breaks the
// laws can be looked at too.
//
// Errors:   Internal for a microbatch, chunk or stage that the configuration does not have.
#ifndef PLUMBLINE_PARALLEL_PIPELINE_SCHEDULE_NEEDS_H_
#define PLUMBLINE_PARALLEL_PIPELINE_SCHEDULE_NEEDS_H_

#include <vector>

#include "parallel/pipeline/schedule.h"

namespace plumbline {

inline constexpr int kNone = -1;     // not needed
inline constexpr int kMissing = -2;  // needed, and not in the schedule

// Of a message, its other end.
struct Partner {
  int stage = kMissing;
  int operation = kMissing;
};

// What an operation needs, as indices into its own stage's list.
struct Needs {
  int local = kNone;  // the computation that must come before
  int recv = kNone;   // the receive of its input
  Partner partner;
};

// By stage and operation.
std::vector<std::vector<Needs>> FindNeeds(const Schedule& schedule);

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_PIPELINE_SCHEDULE_NEEDS_H_
