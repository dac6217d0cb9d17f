// The microbatches of one model chunk on one rank, one after the other, step after step.
//
// Megatron gives each model chunk of each rank its own iterator over the same samples; nothing but
// how often it is read ties a batch to the microbatch that the pipeline means. So an iterator
// counts what it has handed out, and each stage shows the count as `consumed_samples`.
//
// Source:   Megatron-LM training/utils.py, get_batch_on_this_tp_rank.
#ifndef PLUMBLINE_PARALLEL_TRAIN_DATA_ITERATOR_H_
#define PLUMBLINE_PARALLEL_TRAIN_DATA_ITERATOR_H_

#include <cstdint>

#include "base/batch.h"
#include "parallel/model/stage_spec.h"
#include "parallel/tensor/pass.h"
#include "parallel/tensor/rank_env.h"

namespace plumbline {

class DataIterator {
 public:
  // Tokens for the chunk with the embedding alone, labels and loss mask for the one with the loss
  // alone; position ids, document ids and sample numbers (dropout) for all.
  DataIterator(const RankEnv& env, const BatchSource& batches, const StageSpec& stage);

  Microbatch Next();
  // How many it has handed out since the start of the training.
  int64_t taken() const { return taken_; }

 private:
  const RankEnv& env_;
  const BatchSource& batches_;
  bool reads_tokens_;
  bool reads_labels_;
  int64_t taken_ = 0;
};

// A rank's i-th microbatch of a step, counted over all data-parallel ranks.
int64_t GlobalMicrobatch(const RankEnv& env, int64_t i);

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_TRAIN_DATA_ITERATOR_H_
