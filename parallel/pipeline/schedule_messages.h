// Adds sends and receives to the computations of a pipeline.
//
// Where a message is sent is settled: right after what produces it. Where it is received decides
// whether blocking messages can deadlock. Let every computation take one unit of time and every
// message none, and look at the gaps, perhaps empty, between each stage's computations. A stage
// that blocks in the gap after a computation loses nothing as long as it gets on by the gap's end.
// So a message costs nothing if sender and receiver meet: if the gap of the one overlaps the gap of
// the other. By induction over time all computations then start as if messages never blocked, and
// there is no deadlock. The receive goes into the last such gap before its use, so that the least
// lies about unused. For 1F1B this is where Megatron receives; with groups of more than pp
// microbatches it means that the first stage receives ahead of need, as Megatron's does.
//
// Errors:   Internal when the computations wait for each other in a cycle.
#ifndef PLUMBLINE_PARALLEL_PIPELINE_SCHEDULE_MESSAGES_H_
#define PLUMBLINE_PARALLEL_PIPELINE_SCHEDULE_MESSAGES_H_

#include <vector>

#include "parallel/pipeline/schedule.h"

namespace plumbline {

// `orders` by stage, from ComputeOrder.
std::vector<std::vector<Operation>> WithMessages(const ScheduleConfig& config,
                                                 const std::vector<std::vector<Operation>>& orders);

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_PIPELINE_SCHEDULE_MESSAGES_H_
