// The loss of a microbatch from its per-token losses, and where the divisions of the two
// normalisations happen.
//
// Default: loss = sum_t mask_t loss_t / n, n the microbatch's own count of labels (at least 1); the
// backward starts from mask_t / num_microbatches / n, and data-parallel ranks average.
// calculate_per_token_loss: loss = sum_t mask_t loss_t; the backward starts from mask_t, ranks sum,
// and the division by the step's count of labels comes in finalize.
//
// Shapes:   losses [S, B] -> 0-d.
// Comm:     ReportedLoss and GlobalLabelCount one all_reduce of a scalar over dp-cp each;
//           GlobalLabelCount before it one broadcast over pp from the last stage, which alone has
//           labels.
// Source:   Megatron-LM pretrain_gpt.py, loss_func; Megatron-Core pipeline_parallel/schedules.py,
//           forward_step_calc_loss.
#ifndef PLUMBLINE_PARALLEL_TRAIN_LOSS_H_
#define PLUMBLINE_PARALLEL_TRAIN_LOSS_H_

#include <cstdint>

#include "base/tensor.h"
#include "parallel/tensor/pass.h"
#include "parallel/tensor/rank_env.h"

namespace plumbline {

Tensor MicrobatchLoss(const RankEnv& env, const Microbatch& microbatch, const Tensor& losses);
// d(step loss) / d(losses), [S, B], less the factor that finalize applies.
Tensor MicrobatchLossGradient(const RankEnv& env, const Microbatch& microbatch);

// Labels of the step over all ranks, 0-d, from this rank's.
Tensor GlobalLabelCount(const RankEnv& env, int64_t step, Tensor own_count);
// The step's loss from the sum of this rank's microbatch losses. `label_count` is the step's;
// undefined by default.
Tensor ReportedLoss(const RankEnv& env, int64_t step, Tensor own_sum, const Tensor& label_count);

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_TRAIN_LOSS_H_
