#include "parallel/model/transformer_layer.h"

#include <fmt/format.h>

#include "kernels/elementwise.h"

namespace plumbline {

TransformerLayer::TransformerLayer(const RankEnv& env, const ActivationLayouts& layouts,
                                   const QkvLayout& qkv_layout, int32_t layer)
    : TransformerLayer(env, layouts, qkv_layout, layer, fmt::format("decoder.layers.{}.", layer)) {}

TransformerLayer::TransformerLayer(const RankEnv& env, const ActivationLayouts& layouts,
                                   const QkvLayout& qkv_layout, int32_t layer,
                                   const std::string& prefix)
    : env_(env),
      input_layernorm_(env, layouts, layer, prefix + "input_layernorm"),
      self_attention_(env, layouts, qkv_layout, layer, prefix),
      self_attn_bda_(env, layouts, layer, prefix + "self_attn_bda",
                     prefix + "self_attention.linear_proj"),
      pre_mlp_layernorm_(env, layouts, layer, prefix + "pre_mlp_layernorm"),
      mlp_(env, layouts, layer, prefix),
      mlp_bda_(env, layouts, layer, prefix + "mlp_bda", prefix + "mlp.linear_fc2") {}

Tensor TransformerLayer::Forward(const Pass& pass, const Tensor& x, Saved& saved) const {
  const Tensor attention_input = input_layernorm_.Forward(pass, x, saved.input_layernorm);
  const auto attention = self_attention_.Forward(pass, attention_input, saved.self_attention);
  const Tensor h = self_attn_bda_.Forward(pass, attention, x);
  const Tensor mlp_input = pre_mlp_layernorm_.Forward(pass, h, saved.pre_mlp_layernorm);
  const auto mlp = mlp_.Forward(pass, mlp_input, saved.mlp);
  return mlp_bda_.Forward(pass, mlp, h);
}

Tensor TransformerLayer::Backward(const Pass& pass, const Tensor& dy, const Saved& saved) {
  const Context& context = env_.context();
  const Tensor dmlp = mlp_bda_.Backward(pass, dy);
  const Tensor dmlp_input = mlp_.Backward(pass, dmlp, saved.mlp);
  const Tensor dh =
      Add(context, dy, pre_mlp_layernorm_.Backward(pass, dmlp_input, saved.pre_mlp_layernorm));
  const Tensor dattention = self_attn_bda_.Backward(pass, dh);
  const Tensor dattention_input = self_attention_.Backward(pass, dattention, saved.self_attention);
  return Add(context, dh, input_layernorm_.Backward(pass, dattention_input, saved.input_layernorm));
}

void TransformerLayer::AppendParameters(std::vector<Parameter*>& parameters) {
  input_layernorm_.AppendParameters(parameters);
  self_attention_.AppendParameters(parameters);
  pre_mlp_layernorm_.AppendParameters(parameters);
  mlp_.AppendParameters(parameters);
}

}  // namespace plumbline
