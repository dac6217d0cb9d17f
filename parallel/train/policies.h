// The decisions of a parallel step that can be made in another way, as objects that are passed in.
//
// The defaults are right. A scenario swaps one to see what a wrong decision does; nothing in
// parallel/ knows of mistakes.
#ifndef PLUMBLINE_PARALLEL_TRAIN_POLICIES_H_
#define PLUMBLINE_PARALLEL_TRAIN_POLICIES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/mesh.h"
#include "kernels/attention.h"
#include "kernels/optimizer.h"
#include "kernels/reduce.h"
#include "parallel/comm/communicator.h"
#include "parallel/data/buffer_layout.h"
#include "parallel/pipeline/schedule.h"

namespace plumbline {

struct Policies {
  // Reduction of gradients over data-parallel ranks: op, and the group by its axes.
  struct DataParallel {
    ReduceOp reduce_op_per_microbatch =
        ReduceOp::kAvg;  // each rank's loss is already divided by its microbatches
    ReduceOp reduce_op_per_token =
        ReduceOp::kSum;  // the division by the token count comes in finalize
    std::string group_axes = "dp-cp";
    // After which of a rank's microbatches the reduction comes: the last one.
    std::function<int(int microbatches)> after_microbatch = [](int microbatches) {
      return microbatches - 1;
    };

    // What follows concerns contiguous buffers (DataParallelConfig::gradient_buffers). A number of
    // a bucket group or unit counts within its model chunk.

    // The list that is laid out, and the layout.
    std::function<void(std::vector<BufferParameter>& parameters)> change_buffer_parameters;
    std::function<void(std::vector<BufferLayout>& buffers)> change_buffers;
    // The part of a bucket whose gradients, masters and moments are a rank's.
    std::function<BufferRange(const Bucket& bucket, int shard, int shards)> owned_range = ShardOf;
    // Whether the gradients are set to zero before this of a step's microbatches.
    std::function<bool(int64_t step, int microbatch)> zeroes_gradients =
        [](int64_t, int microbatch) { return microbatch == 0; };
    // Whether gradients are divided before their collective starts, not while it is under way.
    bool scales_before_reduction = true;
    // Whether the communication stream waits for the gradients that it reduces.
    std::function<bool(int bucket_group)> reduces_after_compute = [](int) { return true; };
    // Whether whoever reads reduced gradients, or gathered parameters, waits for them.
    std::function<bool(int bucket_group)> waits_for_reduction = [](int) { return true; };
    std::function<bool(int bucket_group)> waits_for_gather = [](int) { return true; };
    // Whether updated parameters are gathered.
    std::function<bool(int64_t step, int bucket_group)> gathers_parameters = [](int64_t, int) {
      return true;
    };
    // Whether a unit's gradients get a send buffer that no earlier reduction still reads.
    bool waits_before_reuse = true;
    // Whether what makes gradients complete beyond the data-parallel reduction is done.
    std::function<bool(int64_t step)> finalizes = [](int64_t) { return true; };
  } data_parallel;

  // Changes a rank's moments before the update of a step: all first ones, then all second ones.
  // Empty: they stay.
  std::function<void(Communicator& comm, const Context& context, const Group& shards, int64_t step,
                     std::vector<Tensor>& moments)>
      change_moments;

  // The sum over first and last pipeline stage of the gradients of a word table that both hold.
  struct TiedEmbedding {
    int reductions = 1;
    // After which of a rank's microbatches: the last one, when the data-parallel reduction is
    // complete. What comes after an earlier one is added on each stage by itself.
    std::function<int(int microbatches)> after_microbatch = [](int microbatches) {
      return microbatches - 1;
    };
    // Whether the last stage's copy counts in the gradient norm beside the first stage's.
    bool counts_copy = false;
  } tied_embedding;

  // How microbatches go through the stages of a pipeline.
  struct Pipeline {
    // What each stage does in which order. Empty: as the schedule's name says.
    std::function<void(Schedule& schedule)> change_schedule;
    // The number, in the whole model, of the layer that a stage's chunk takes for number `layer`.
    std::function<int32_t(int stage, int chunk, int32_t layer)> layer_number =
        [](int, int, int32_t layer) { return layer; };
    // How many batches a stage throws away before it reads that of a microbatch.
    std::function<int(int stage, int chunk, int microbatch)> batches_skipped = [](int, int, int) {
      return 0;
    };
    // Whether a stage computes its backward; if not it hands zeros on.
    std::function<bool(int stage, int chunk, int microbatch)> runs_backward = [](int, int, int) {
      return true;
    };
    // The step whose dropout masks a recomputation draws.
    std::function<int32_t(int32_t step)> recompute_mask_step = [](int32_t step) { return step; };
  } pipeline;

  // What a microbatch's loss is divided by beside its count of labels, before the backward. Without
  // effect when the division by labels comes in finalize.
  std::function<int64_t(int64_t microbatches)> loss_divisor = [](int64_t microbatches) {
    return microbatches;
  };

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

  // The attention operator.
  std::function<AttentionForwardResult(const Context& context, const Tensor& q, const Tensor& k,
                                       const Tensor& v, const AttentionOptions& options)>
      attention_forward = AttentionForward;

  // Dropout of hidden states: the seed that a tensor-parallel rank draws with, and the row of the
  // whole sequence as which one of the rank's rows draws.
  struct HiddenDropout {
    std::function<uint64_t(int tp_rank, uint64_t seed)> seed = [](int, uint64_t seed) {
      return seed;
    };
    std::function<int64_t(int64_t row, int64_t first_row)> row = [](int64_t row, int64_t) {
      return row;
    };
  } hidden_dropout;

  // The update of AdamW.
  std::function<void(const Context& context, Tensor& parameter, const Tensor& gradient,
                     Tensor& exp_avg, Tensor& exp_avg_sq, const AdamOptions& options,
                     const Tensor& gradient_scale)>
      adam_step = AdamStep;

  // A parameter's weight decay, from what its kind has: 0 for norms and biases.
  std::function<double(const std::string& parameter, double of_its_kind)> weight_decay =
      [](const std::string&, double of_its_kind) { return of_its_kind; };

  // Gradient norm: whose elements count, and over which ranks their squares are summed.
  struct GradNorm {
    // Sharded parameters count everywhere, replicated ones on the first tensor-parallel rank.
    std::function<bool(const std::string& parameter, bool tensor_parallel, int tp_rank)> counts =
        [](const std::string&, bool tensor_parallel, int tp_rank) {
          return tensor_parallel || tp_rank == 0;
        };
    std::string group_axes = "tp-pp";
    // Where data-parallel ranks share the gradients out.
    std::string sharded_group_axes = "tp-cp-dp-pp";
  } grad_norm;
};

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_TRAIN_POLICIES_H_
