// From a schedule's name and sizes to the schedule: a pure function.
//
// Errors:   InvalidArgument as Validate (schedule.h).
#ifndef PLUMBLINE_PARALLEL_PIPELINE_SCHEDULE_BUILDER_H_
#define PLUMBLINE_PARALLEL_PIPELINE_SCHEDULE_BUILDER_H_

#include "parallel/pipeline/schedule.h"

namespace plumbline {

// Keeps the laws of schedule_laws.h. In particular it may be run in two ways without deadlock: with
// sends that leave at once and computations that wait for their own input only; and with blocking
// batches (Operation::with_next), in which a send waits for its receive.
Schedule MakeSchedule(const ScheduleConfig& config);

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_PIPELINE_SCHEDULE_BUILDER_H_
