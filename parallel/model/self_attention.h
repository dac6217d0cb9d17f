// Causal self-attention with grouped queries, its heads split over tp.
//
// Shapes:   x [S, B, H] ([S/tp, B, H] with sequence parallelism) -> the same, complete but for the
//           bias, which is handed on.
// Comm:     that of linear_qkv, QkvLayout and linear_proj.
// Source:   Megatron-Core transformer/attention.py, SelfAttention.
#ifndef PLUMBLINE_PARALLEL_MODEL_SELF_ATTENTION_H_
#define PLUMBLINE_PARALLEL_MODEL_SELF_ATTENTION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/attention.h"
#include "parallel/model/activation_layouts.h"
#include "parallel/tensor/column_parallel_linear.h"
#include "parallel/tensor/qkv_layout.h"
#include "parallel/tensor/row_parallel_linear.h"
#include "parallel/tensor/tap.h"

namespace plumbline {

class SelfAttention {
 public:
  struct Saved {
    ColumnParallelLinear::Saved linear_qkv;
    QueryKeyValue qkv;  // after rotation
    AttentionForwardResult attention;
    AttentionOptions options;
    RowParallelLinear::Saved linear_proj;
  };

  // `prefix` is "decoder.layers.N."; its input is "<prefix>input_layernorm".
  SelfAttention(const RankEnv& env, const ActivationLayouts& layouts, const QkvLayout& qkv_layout,
                int32_t layer, const std::string& prefix);

  RowParallelLinear::Output Forward(const Pass& pass, const Tensor& x, Saved& saved) const;
  Tensor Backward(const Pass& pass, const Tensor& dy, const Saved& saved);

  void AppendParameters(std::vector<Parameter*>& parameters);

 private:
  AttentionOptions OptionsAt(const Pass& pass) const;

  const RankEnv& env_;
  const QkvLayout& qkv_layout_;
  Tap qkv_tap_;
  Tap query_tap_;
  Tap key_tap_;
  Tap context_tap_;
  ColumnParallelLinear linear_qkv_;
  RowParallelLinear linear_proj_;
  std::vector<double> inverse_frequencies_;  // empty without rotary positions
  AttentionOptions options_;                 // what is the same at every pass
  uint64_t dropout_hash_;
};

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_MODEL_SELF_ATTENTION_H_
