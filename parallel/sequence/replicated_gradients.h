// Gradients of parameters that every tensor-parallel rank holds whole, when each rank has seen only
// its part of the sequence: norm weights and biases, biases of row-parallel layers.
//
// Comm:     one all_reduce over tp for each such parameter; none without sequence parallelism.
// Numerics: adds in rank order, so that the copies stay bit-equal.
// Source:   Korthikanti et al. 2022; Megatron-Core distributed/finalize_model_grads.py,
//           _allreduce_non_tensor_model_parallel_grads.
#ifndef PLUMBLINE_PARALLEL_SEQUENCE_REPLICATED_GRADIENTS_H_
#define PLUMBLINE_PARALLEL_SEQUENCE_REPLICATED_GRADIENTS_H_

#include <cstdint>
#include <span>

#include "parallel/tensor/parameter.h"

namespace plumbline {

void SumSequenceParallelGradients(const RankEnv& env, int64_t step,
                                  std::span<Parameter* const> parameters);

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_SEQUENCE_REPLICATED_GRADIENTS_H_
