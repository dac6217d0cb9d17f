// Pieces of a cross entropy over a vocabulary that may be split: the caller reduces between them.
//
// loss_t = log z_t - logit_t[y_t], z_t = sum_j exp(logit_t[j]); with label smoothing s over V
// unpadded classes loss_t = -(1 - s) log p_y - s / (V - 1) sum_{j != y} log p_j.
//
// Shapes:   logits [T, V_local]: columns [first_class, first_class + V_local) of the vocabulary, of
// which those at or
//           past `valid_classes` (global) are padding and skipped; targets i64 [T]; per-token
//           results [T].
// Numerics: sums over classes in ascending order, one chain. bf16 and f16 logits are widened to
// f32:
//           per-token results, and dloss, are f32; the gradient of the logits is rounded once.
// Source:   Shoeybi et al. 2019, section 3; Megatron-Core tensor_parallel/cross_entropy.py.
#ifndef PLUMBLINE_KERNELS_CROSS_ENTROPY_H_
#define PLUMBLINE_KERNELS_CROSS_ENTROPY_H_

#include <cstdint>

#include "base/context.h"
#include "base/tensor.h"

namespace plumbline {

struct ClassRange {
  int64_t first_class = 0;
  int64_t valid_classes = 0;
};

// Largest score of each row, as a tensor of ScalarTraits::Score (dtype of the logits for floats).
// Reduce with kMax. A row without valid classes gives the lowest score.
Tensor RowMaxScore(const Context& context, const Tensor& logits, const ClassRange& range);
// sum_j exp(logit_j - max). Reduce with kSum.
Tensor RowSumExp(const Context& context, const Tensor& logits, const Tensor& max,
                 const ClassRange& range);
// logit of the target, 0 when another rank has it. Reduce with kSum.
Tensor RowTargetLogit(const Context& context, const Tensor& logits, const Tensor& targets,
                      const ClassRange& range);
// Sum of the valid logits, for label smoothing. Reduce with kSum.
Tensor RowSum(const Context& context, const Tensor& logits, const ClassRange& range);

struct CrossEntropyTotals {
  Tensor max;        // reduced RowMaxScore
  Tensor sum_exp;    // reduced RowSumExp
  Tensor target;     // reduced RowTargetLogit
  Tensor logit_sum;  // reduced RowSum; undefined without label smoothing
};
// Per-token loss.
Tensor CrossEntropyLoss(const Context& context, const CrossEntropyTotals& totals,
                        int64_t valid_classes, double label_smoothing);
// d loss / d logits times dloss [T]; padding columns get 0.
Tensor CrossEntropyBackward(const Context& context, const Tensor& dloss, const Tensor& logits,
                            const Tensor& targets, const CrossEntropyTotals& totals,
                            const ClassRange& range, double label_smoothing);

}  // namespace plumbline

#endif  // PLUMBLINE_KERNELS_CROSS_ENTROPY_H_
