// Crossing the border between sequence-parallel and tensor-parallel regions.
//
// Outside the tensor-parallel regions a hidden state [S, B, H] is split along S over tp (or whole
// on every rank without sequence parallelism); inside it is whole. With t the tensor-parallel size:
//
//   ScatterSequence        [S, B, H] -> [S/t, B, H]   this rank's rows; its backward gathers
//   GatherSequence         [S/t, B, H] -> [S, B, H]   its backward reduce-scatters
//   ReduceScatterSequence  sum over tp, then this rank's rows; its backward gathers
//   SumOverTp              sum over tp, whole on every rank; its backward is the identity
//
// Comm:     one all_gather, reduce_scatter or all_reduce over tp; none when tp is 1.
// Numerics: both sums add in rank order, so that sequence parallelism changes no bit of a forward.
// Source:   Korthikanti et al. 2022, figure 5; Megatron-Core tensor_parallel/mappings.py.
#ifndef PLUMBLINE_PARALLEL_SEQUENCE_REGIONS_H_
#define PLUMBLINE_PARALLEL_SEQUENCE_REGIONS_H_

#include "base/site.h"
#include "base/tensor.h"
#include "parallel/tensor/rank_env.h"

namespace plumbline {

Tensor ScatterSequence(const RankEnv& env, const Tensor& x);
Tensor GatherSequence(const RankEnv& env, const Tensor& x, const Site& site);
Tensor ReduceScatterSequence(const RankEnv& env, const Tensor& partial, const Site& site);
// `partial` is a fresh result that nobody else holds: the sum takes its place.
Tensor SumOverTp(const RankEnv& env, Tensor partial, const Site& site);

// Between a tensor-parallel region and the residual stream: with sequence parallelism
// reduce-scatter and gather, without it sum and nothing.
Tensor LeaveTensorParallel(const RankEnv& env, Tensor partial, const Site& site);
Tensor EnterTensorParallel(const RankEnv& env, const Tensor& x, const Site& site);

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_SEQUENCE_REGIONS_H_
