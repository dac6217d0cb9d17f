// residual + dropout(y + bias): the end of attention and of the MLP, where the bias of the
// row-parallel layer is added, once, to its complete sum.
//
// Shapes:   y and residual [S, B, H] or this rank's rows of them -> the same.
// Comm:     none.
// Source:   Megatron-Core fusions/fused_bias_dropout.py.
#ifndef PLUMBLINE_PARALLEL_MODEL_BIAS_DROPOUT_ADD_H_
#define PLUMBLINE_PARALLEL_MODEL_BIAS_DROPOUT_ADD_H_

#include <cstdint>
#include <string>

#include "parallel/model/activation_layouts.h"
#include "parallel/model/hidden_dropout.h"
#include "parallel/tensor/row_parallel_linear.h"
#include "parallel/tensor/tap.h"

namespace plumbline {

class BiasDropoutAdd {
 public:
  // `name` is "<layer>.self_attn_bda" or "<layer>.mlp_bda", `linear_name` that of the row-parallel
  // layer before it.
  BiasDropoutAdd(const RankEnv& env, const ActivationLayouts& layouts, int32_t layer,
                 const std::string& name, const std::string& linear_name);

  Tensor Forward(const Pass& pass, const RowParallelLinear::Output& linear,
                 const Tensor& residual) const;
  // The gradient of the linear layer's output. That of the residual is dy itself.
  Tensor Backward(const Pass& pass, const Tensor& dy) const;

 private:
  const RankEnv& env_;
  Tap linear_tap_;
  Tap output_;
  HiddenDropout dropout_;
};

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_MODEL_BIAS_DROPOUT_ADD_H_
