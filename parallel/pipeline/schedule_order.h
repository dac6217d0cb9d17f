// In which order each stage of a pipeline computes: a schedule before its messages.
//
// Per chunk, every schedule adds up weight gradients in the order of the microbatches, so that all
// of them give the same bits.
//
// Errors:   none; the configuration is valid (schedule.h, Validate).
// Source:   as in schedule.h.
#ifndef PLUMBLINE_PARALLEL_PIPELINE_SCHEDULE_ORDER_H_
#define PLUMBLINE_PARALLEL_PIPELINE_SCHEDULE_ORDER_H_

#include <vector>

#include "parallel/pipeline/schedule.h"

namespace plumbline {

// By stage; operations that compute, and no others.
std::vector<std::vector<Operation>> ComputeOrder(const ScheduleConfig& config);

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_PIPELINE_SCHEDULE_ORDER_H_
