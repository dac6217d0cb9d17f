// The activation between linear_fc1 and linear_fc2.
//
// gelu_tanh: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))); gelu_erf: x Phi(x); squared_relu:
// max(x, 0)^2; swiglu: silu(gate) * up, where gate is the first half of the last dimension and up
// the second.
//
// Shapes:   x [..., F] -> [..., F]; swiglu [..., 2F] -> [..., F]. Any strides.
// Numerics: bf16 and f16 are computed in f32 and rounded once.
// Source:   Hendrycks and Gimpel 2016; So et al. 2021; Shazeer 2020.
#ifndef PLUMBLINE_KERNELS_ACTIVATION_H_
#define PLUMBLINE_KERNELS_ACTIVATION_H_

#include "base/config.h"
#include "base/context.h"
#include "base/tensor.h"

namespace plumbline {

Tensor ActivationForward(const Context& context, Activation kind, const Tensor& x);
Tensor ActivationBackward(const Context& context, Activation kind, const Tensor& dy,
                          const Tensor& x);

}  // namespace plumbline

#endif  // PLUMBLINE_KERNELS_ACTIVATION_H_
