// Bytes per parameter of what a step needs: weights, gradients, optimizer state.
//
//   fp16 weights and gradients        20, with the distributed optimizer  4 + 16/d
//   bf16 weights, fp32 gradients      18                                  6 + 12/d
//   fp32                              16                                  8 +  8/d
//
// with Adam, over d ranks that share a parameter out. Gradients narrower than the master weights
// count a copy in the masters' dtype, which Megatron makes for the update. optim_grads shares the
// gradients out too, optim_grads_params everything.
//
// Source:   Megatron-Core docs, distributed optimizer; Rajbhandari et al. 2020, section 5.
#ifndef PLUMBLINE_PARALLEL_DATA_MEMORY_FORMULA_H_
#define PLUMBLINE_PARALLEL_DATA_MEMORY_FORMULA_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"

namespace plumbline {

enum class MemoryState : uint8_t { kWeights, kMainGrads, kGradCopies, kMasters, kMoments };
std::string_view Name(MemoryState state);  // "weights", "main gradients"

struct StateBytes {
  MemoryState state = MemoryState::kWeights;
  int64_t bytes = 0;     // of one parameter
  bool sharded = false;  // held by one of d ranks
};

// Those that the run has, in the enumeration's order.
std::vector<StateBytes> MemoryFormula(const RunConfig& config);

// "6 + 12/d"; "16" when nothing is shared out, "16/d" when everything is.
std::string FormulaText(const std::vector<StateBytes>& states);

// Of `elements` parameters on one of d ranks.
double FormulaBytes(const std::vector<StateBytes>& states, int64_t elements, int d);

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_DATA_MEMORY_FORMULA_H_
