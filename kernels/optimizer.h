// Parameter updates, in place and element-wise.
//
// AdamW: m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2; p -= lr wd p;  p -= lr (m / (1 - b1^t)) /
// (sqrt(v / (1 - b2^t)) + eps). SGD:   v = mu v + g + wd p; p -= lr v (momentum 0: no buffer).
//
// Shapes:   all alike, contiguous. `gradient_scale` is a 0-d tensor that multiplies the gradient
// first (the clip
//           coefficient); undefined: 1.
// Numerics: 1 - b^t by repeated multiplication in the scalar. A bf16 or f16 gradient may update an
//           f32 parameter; where all are bf16 or f16 each is updated in f32 and rounded once. The
//           gradient's scale is then f32.
// Source:   Loshchilov and Hutter 2019; apex FusedAdam (adam_w_mode) and PyTorch SGD, which
// Megatron uses.
#ifndef PLUMBLINE_KERNELS_OPTIMIZER_H_
#define PLUMBLINE_KERNELS_OPTIMIZER_H_

#include <cstdint>

#include "base/context.h"
#include "base/tensor.h"

namespace plumbline {

struct AdamOptions {
  double lr = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  int64_t step = 1;  // counts from 1
};
void AdamStep(const Context& context, Tensor& parameter, const Tensor& gradient, Tensor& exp_avg,
              Tensor& exp_avg_sq, const AdamOptions& options, const Tensor& gradient_scale);

struct SgdOptions {
  double lr = 0;
  double momentum = 0;
  double weight_decay = 0;
  int64_t step = 1;  // on step 1 the momentum buffer becomes the gradient
};
void SgdStep(const Context& context, Tensor& parameter, const Tensor& gradient,
             Tensor& momentum_buffer, const SgdOptions& options, const Tensor& gradient_scale);

}  // namespace plumbline

#endif  // PLUMBLINE_KERNELS_OPTIMIZER_H_
