// The gradient's Euclidean norm over the whole model, each element counted once.
//
// Comm:     one all_reduce of a scalar over tp-pp (Policies::GradNorm); where data-parallel ranks
//           share gradients out, over the ranks that together hold the model once.
// Numerics: squares sum in ascending order within a parameter, parameters in model order, ranks in
//           rank order; one square root of the complete sum.
// Source:   Megatron-Core optimizer/clip_grads.py, get_grad_norm_fp32.
#ifndef PLUMBLINE_PARALLEL_OPTIMIZER_GRAD_NORM_H_
#define PLUMBLINE_PARALLEL_OPTIMIZER_GRAD_NORM_H_

#include <cstdint>
#include <span>

#include "parallel/tensor/parameter.h"

namespace plumbline {

// 0-d, equal on every rank.
Tensor GradNorm(const RankEnv& env, int64_t step, std::span<Parameter* const> parameters);

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_OPTIMIZER_GRAD_NORM_H_
