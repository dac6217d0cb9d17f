// The gradient of a word table that first and last pipeline stage both hold: each has its own term,
// of the embedding and of the output layer.
//
// Comm:     one all_reduce of the table over the embedding group; none when one stage has both
// uses. Numerics: first stage's term plus last stage's. Each is complete but for this: summed over
// its
//           microbatches and over data-parallel ranks.
// Source:   Megatron-Core distributed/finalize_model_grads.py, _allreduce_word_embedding_grads.
#ifndef PLUMBLINE_PARALLEL_DATA_TIED_EMBEDDINGS_H_
#define PLUMBLINE_PARALLEL_DATA_TIED_EMBEDDINGS_H_

#include <cstdint>
#include <memory>
#include <span>

#include "parallel/comm/communicator.h"
#include "parallel/tensor/parameter.h"

namespace plumbline {

class TiedEmbeddings {
 public:
  TiedEmbeddings(const RankEnv& env, std::span<Parameter* const> parameters);

  // The main gradient holds the rank's microbatches up to this one.
  void Accumulated(int64_t step, int microbatch);
  // Before the data-parallel reduction: takes in a sum that was begun early.
  void Join();
  // After it.
  void Finalize(int64_t step);

 private:
  Site SiteOf(int64_t step) const;

  const RankEnv& env_;
  Parameter* table_ = nullptr;  // nullptr: nothing to sum on this rank
  int after_microbatch_;
  Tensor early_;  // a sum under way that was begun before the last microbatch
  std::shared_ptr<Work> early_work_;
  bool summed_early_ = false;
};

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_DATA_TIED_EMBEDDINGS_H_
