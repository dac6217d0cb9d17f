// From main gradients that hold one rank's terms to the complete gradient of the step.
//
// In Megatron's order: data-parallel reduction; parameters that only part of the sequence reached,
// summed over tp; the word table that first and last pipeline stage hold, summed over both; copied
// key and value rows, summed over their holders; with per-token loss the division by the step's
// count of labels.
//
// Comm:     as the parts say; for copied rows one all_reduce per parameter over the ranks that hold
//           them.
// Source:   Megatron-Core distributed/finalize_model_grads.py.
#ifndef PLUMBLINE_PARALLEL_DATA_FINALIZE_GRADIENTS_H_
#define PLUMBLINE_PARALLEL_DATA_FINALIZE_GRADIENTS_H_

#include <cstdint>
#include <functional>
#include <span>

#include "parallel/data/tied_embeddings.h"
#include "parallel/tensor/parameter.h"

namespace plumbline {

// `reduce` is the data-parallel reduction, or what is left of it. `label_count` is the step's, 0-d;
// undefined without per-token loss.
void FinalizeGradients(const RankEnv& env, int64_t step, std::span<Parameter* const> parameters,
                       const std::function<void()>& reduce, TiedEmbeddings& tied_embeddings,
                       const Tensor& label_count);

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_DATA_FINALIZE_GRADIENTS_H_
