// Cross entropy over logits that are cut over tp along the vocabulary: the logits stay where they
// are.
//
// loss_t = log z_t - logit_t[y_t], z_t = sum_j exp(logit_t[j]); with label smoothing s over the V
// classes that take part -(1 - s) log p_y - s / (V - 1) sum_{j != y} log p_j.
//
// Shapes:   logits_shard [S, B, ceil(V / tp)], targets i64 [S * B] -> loss [S * B].
// Comm:     forward all_reduce over tp of [S * B], each: the maximum, the target's logit, the sum
//           of exponentials, and with label smoothing the sum of logits; backward none.
// Numerics: a rank's classes sum in ascending order, ranks add in rank order. Padding takes no part
//           in maximum or sums under VocabPadding::kMasked; under kMegatron it does.
// Source:   Shoeybi et al. 2019, section 3; Megatron-Core tensor_parallel/cross_entropy.py (whose
//           label smoothing spreads over each rank's own classes; here over all).
#ifndef PLUMBLINE_PARALLEL_TENSOR_VOCAB_PARALLEL_CROSS_ENTROPY_H_
#define PLUMBLINE_PARALLEL_TENSOR_VOCAB_PARALLEL_CROSS_ENTROPY_H_

#include <cstdint>
#include <string>

#include "kernels/cross_entropy.h"
#include "parallel/tensor/pass.h"
#include "parallel/tensor/rank_env.h"

namespace plumbline {

class VocabParallelCrossEntropy {
 public:
  struct Options {
    std::string logits_name;  // of the module that makes the logits: whose classes a rank owns
    std::string loss_name;    // the collectives carry it
    int64_t classes_per_rank = 0;
    int64_t valid_classes = 0;  // global; those at or past it are padding
    double label_smoothing = 0;
  };
  struct Saved {
    Tensor logits;  // [S * B, classes per rank]
    CrossEntropyTotals totals;
  };

  VocabParallelCrossEntropy(const RankEnv& env, const Options& options);

  Tensor Forward(const Pass& pass, const Tensor& logits, const Tensor& targets, Saved& saved) const;
  // dloss [S * B] -> the gradient of the logits, [S * B, classes per rank].
  Tensor Backward(const Tensor& dloss, const Tensor& targets, const Saved& saved) const;

 private:
  const RankEnv& env_;
  Site site_;
  ClassRange range_;
  double label_smoothing_;
};

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_TENSOR_VOCAB_PARALLEL_CROSS_ENTROPY_H_
