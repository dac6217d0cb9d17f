// One pre-norm transformer layer:
//
//   h = x + dropout(attention(norm(x)) + bias);  y = h + dropout(mlp(norm(h)) + bias).
//
// Shapes:   x [S, B, H] ([S/tp, B, H] with sequence parallelism) -> the same.
// Comm:     two pairs of crossings between residual stream and tensor-parallel region each way.
// Source:   Megatron-Core transformer/transformer_layer.py.
#ifndef PLUMBLINE_PARALLEL_MODEL_TRANSFORMER_LAYER_H_
#define PLUMBLINE_PARALLEL_MODEL_TRANSFORMER_LAYER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/model/bias_dropout_add.h"
#include "parallel/model/mlp.h"
#include "parallel/model/norm.h"
#include "parallel/model/self_attention.h"

namespace plumbline {

class TransformerLayer {
 public:
  struct Saved {
    Norm::Saved input_layernorm;
    SelfAttention::Saved self_attention;
    Norm::Saved pre_mlp_layernorm;
    Mlp::Saved mlp;
  };

  // `layer` counts over the whole model.
  TransformerLayer(const RankEnv& env, const ActivationLayouts& layouts,
                   const QkvLayout& qkv_layout, int32_t layer);

  Tensor Forward(const Pass& pass, const Tensor& x, Saved& saved) const;
  Tensor Backward(const Pass& pass, const Tensor& dy, const Saved& saved);

  // In the order of docs/sites.md.
  void AppendParameters(std::vector<Parameter*>& parameters);

 private:
  TransformerLayer(const RankEnv& env, const ActivationLayouts& layouts,
                   const QkvLayout& qkv_layout, int32_t layer, const std::string& prefix);

  const RankEnv& env_;
  Norm input_layernorm_;
  SelfAttention self_attention_;
  BiasDropoutAdd self_attn_bda_;
  Norm pre_mlp_layernorm_;
  Mlp mlp_;
  BiasDropoutAdd mlp_bda_;
};

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_MODEL_TRANSFORMER_LAYER_H_
