// Bytes of weights, gradients and optimizer state on one rank: by formula, and by the layout of its
// buffers, padding and uneven shards included.
#ifndef PLUMBLINE_CLI_STAGE_MEMORY_H_
#define PLUMBLINE_CLI_STAGE_MEMORY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/config.h"
#include "cli/stage_buffers.h"
#include "parallel/data/memory_formula.h"

namespace plumbline {

struct StateMemory {
  StateBytes per_parameter;
  double formula = 0;  // bytes, without padding and with even shards
  int64_t layout = 0;  // bytes that the rank allocates
};

// In the order of MemoryFormula. Copies of gradients in the masters' dtype have none by layout: the
// update here casts each gradient as it reads it.
std::vector<StateMemory> StageMemory(const RunConfig& config, const StageBuffers& stage, int shard);

}  // namespace plumbline

#endif  // PLUMBLINE_CLI_STAGE_MEMORY_H_
