// LayerNorm and RMSNorm over the last dimension.
//
// y = (x - mean) * rstd * weight + bias, rstd = 1 / sqrt(var + eps), var the biased variance
// (LayerNorm); y = x * rstd * weight,                 rstd = 1 / sqrt(mean(x^2) + eps) (RMSNorm).
//
// Shapes:   x, y, dy [..., H]; weight, bias [H]; mean, rstd [rows].
// Numerics: sums over H in ascending order, one chain per row; the gradients of weight and bias sum
// rows in ascending order. Of bf16 and f16 mean and rstd are f32.
// Source:   Ba et al. 2016; Zhang and Sennrich 2019.
#ifndef PLUMBLINE_KERNELS_NORM_H_
#define PLUMBLINE_KERNELS_NORM_H_

#include "base/context.h"
#include "base/tensor.h"

namespace plumbline {

struct NormForwardResult {
  Tensor y;
  Tensor mean;  // undefined for RMSNorm
  Tensor rstd;
};
struct NormBackwardResult {
  Tensor dx;
  Tensor dweight;
  Tensor dbias;  // undefined for RMSNorm
};

NormForwardResult LayerNormForward(const Context& context, const Tensor& x, const Tensor& weight,
                                   const Tensor& bias, double epsilon);
NormBackwardResult LayerNormBackward(const Context& context, const Tensor& dy, const Tensor& x,
                                     const Tensor& weight, const Tensor& mean, const Tensor& rstd);
NormForwardResult RmsNormForward(const Context& context, const Tensor& x, const Tensor& weight,
                                 double epsilon);
NormBackwardResult RmsNormBackward(const Context& context, const Tensor& dy, const Tensor& x,
                                   const Tensor& weight, const Tensor& rstd);

}  // namespace plumbline

#endif  // PLUMBLINE_KERNELS_NORM_H_
