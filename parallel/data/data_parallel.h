// Plain data parallelism: every rank holds the whole gradient, and one collective per parameter
// joins them after the last microbatch.
//
// Comm:     one all_reduce per parameter over the group that Policies::DataParallel names (dp-cp);
//           none when it has one member.
// Numerics: main gradients add in rank order; kAvg then divides by the group's size.
// Source:   Megatron-Core distributed/distributed_data_parallel.py.
#ifndef PLUMBLINE_PARALLEL_DATA_DATA_PARALLEL_H_
#define PLUMBLINE_PARALLEL_DATA_DATA_PARALLEL_H_

#include <cstdint>
#include <span>

#include "parallel/tensor/parameter.h"

namespace plumbline {

void ReduceOverDataParallel(const RankEnv& env, int64_t step,
                            std::span<Parameter* const> parameters);

// Whether the reduction comes after this of a rank's microbatches, which is not the last one.
bool ReducesEarly(const RankEnv& env, int microbatch);
bool ReducesAfterLastMicrobatch(const RankEnv& env);

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_DATA_DATA_PARALLEL_H_
