// What the ranks of a run really allocate.
#ifndef PLUMBLINE_CLI_MEASURE_MEMORY_H_
#define PLUMBLINE_CLI_MEASURE_MEMORY_H_

#include <array>
#include <cstdint>
#include <vector>

#include "base/allocator.h"
#include "base/config.h"

namespace plumbline {

struct RankMemory {
  // By MemoryCategory: held when a step has ended, and the most ever.
  std::array<int64_t, kMemoryCategories> held = {};
  std::array<int64_t, kMemoryCategories> peak = {};

  int64_t Held(MemoryCategory category) const { return held[static_cast<size_t>(category)]; }
  int64_t Peak(MemoryCategory category) const { return peak[static_cast<size_t>(category)]; }
};

// By global rank, of one step on simulated ranks. Errors: InvalidArgument for what cannot run.
std::vector<RankMemory> MeasureMemory(const RunConfig& config);

}  // namespace plumbline

#endif  // PLUMBLINE_CLI_MEASURE_MEMORY_H_
