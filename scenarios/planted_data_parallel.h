// Mistakes of contiguous buffers, buckets, sharded optimizers and their streams.
#ifndef PLUMBLINE_SCENARIOS_PLANTED_DATA_PARALLEL_H_
#define PLUMBLINE_SCENARIOS_PLANTED_DATA_PARALLEL_H_

#include <vector>

#include "scenarios/planted_mistake.h"

namespace plumbline {

std::vector<Planted> DataParallelMistakes();

}  // namespace plumbline

#endif  // PLUMBLINE_SCENARIOS_PLANTED_DATA_PARALLEL_H_
