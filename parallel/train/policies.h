// The decisions of a parallel step that can be made in another way, as objects that are passed in.
//
// The defaults are right. A scenario swaps one to see what a wrong decision does; nothing in
// parallel/ knows of mistakes.
#ifndef PLUMBLINE_PARALLEL_TRAIN_POLICIES_H_
#define PLUMBLINE_PARALLEL_TRAIN_POLICIES_H_

#include <cstdint>
#include <functional>
#include <string>

#include "base/mesh.h"
#include "kernels/reduce.h"

namespace plumbline {

struct Policies {
  // Reduction of gradients over data-parallel ranks: op, and the group by its axes.
  struct DataParallel {
    ReduceOp reduce_op_per_microbatch =
        ReduceOp::kAvg;  // each rank's loss is already divided by its microbatches
    ReduceOp reduce_op_per_token =
        ReduceOp::kSum;  // the division by the token count comes in finalize
    std::string group_axes = "dp-cp";
  } data_parallel;

  // Which replicated parameters get their gradients summed over tensor-parallel ranks when the
  // sequence is split.
  std::function<bool(const std::string& parameter)> sum_sequence_parallel_gradient =
      [](const std::string&) { return true; };

  // Whether this tensor-parallel rank adds the bias of a row-parallel layer to its partial product
  // before the reduction. By default nobody does, and the bias is added once, after it. As soon as
  // one rank adds it before, nobody adds it after: one rank alone gives the same sum.
  std::function<bool(const std::string& module, int tp_rank)> bias_before_reduction =
      [](const std::string&, int) { return false; };

  // First row of the vocabulary that a tensor-parallel rank owns, for the mask of the embedding
  // ("embedding.word_embeddings") and of the loss ("output_layer").
  std::function<int64_t(const std::string& module, int tp_rank, int64_t rows_per_rank)>
      first_vocab_row = [](const std::string&, int tp_rank, int64_t rows_per_rank) {
        return tp_rank * rows_per_rank;
      };

  // Gradient norm: whose elements count, and over which ranks their squares are summed.
  struct GradNorm {
    // Sharded parameters count everywhere, replicated ones on the first tensor-parallel rank.
    std::function<bool(const std::string& parameter, bool tensor_parallel, int tp_rank)> counts =
        [](const std::string&, bool tensor_parallel, int tp_rank) {
          return tensor_parallel || tp_rank == 0;
        };
    std::string group_axes = "tp-pp";
  } grad_norm;
};

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_TRAIN_POLICIES_H_
