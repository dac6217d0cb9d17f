// What holds for every pipeline schedule, however it was made; written without regard to how
// MakeSchedule makes one.
//
// 1. Each stage computes each microbatch of each chunk once forward and once backward, the backward
//    whole or as its input part and its weight part, as the schedule's kind says.
// 2. A backward comes after its forward, a weight part after its input part.
// 3. What a virtual stage computes for its neighbour is sent once, after it is computed, and
// received
//    once, before it is used. Nothing else is sent or received.
// 4. Between two stages, messages are received in the order in which they are sent.
// 5. A stage holds no more activations than LiveActivationBound.
// 6. Per chunk, weight gradients are added up in the order of the microbatches.
// 7. The schedule runs to its end with sends that leave at once, and with blocking batches.
#ifndef PLUMBLINE_PARALLEL_PIPELINE_SCHEDULE_LAWS_H_
#define PLUMBLINE_PARALLEL_PIPELINE_SCHEDULE_LAWS_H_

#include <string>
#include <vector>

#include "parallel/pipeline/schedule.h"

namespace plumbline {

// One line for each breach, at most `limit`; empty for a lawful schedule.
std::vector<std::string> BrokenLaws(const Schedule& schedule, size_t limit = 10);

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_PIPELINE_SCHEDULE_LAWS_H_
