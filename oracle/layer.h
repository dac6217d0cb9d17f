// One pre-norm transformer layer.
//
//   h = x + dropout(proj(attention(rope(qkv(norm1(x))))))
//   y = h + dropout(fc2(activation(fc1(norm2(h)))))
// Backward in the opposite order; a residual's gradient is the sum over both of its readers.
//
// linear_qkv's rows go query group by query group: its query heads, then its key, then its value.
//
// Shapes:   x, y [S B, H].
// Source:   Vaswani et al. 2017; Radford et al. 2019 (norms before); Megatron-Core
//           transformer_layer.py for the names.
#ifndef PLUMBLINE_ORACLE_LAYER_H_
#define PLUMBLINE_ORACLE_LAYER_H_

#include <cstdint>
#include <string>
#include <utility>

#include "base/config.h"
#include "oracle/activation.h"
#include "oracle/attention.h"
#include "oracle/dropout.h"
#include "oracle/linear.h"
#include "oracle/matrix.h"
#include "oracle/microbatch.h"
#include "oracle/norm.h"
#include "oracle/parameters.h"
#include "oracle/recorder.h"
#include "oracle/rope.h"

namespace plumbline {

// What a layer reads beside its input and parameters.
template <class T>
struct LayerContext {
  const TransformerConfig& config;
  const Microbatch& microbatch;
  const RotaryTable<T>& rotary;  // without columns when positions do not rotate
  Recorder<T>& recorder;
  int32_t layer;

  std::string Name(const std::string& module) const {
    return "decoder.layers." + std::to_string(layer) + "." + module;
  }
  void Value(const std::string& module, const Matrix<T>& matrix, const Shape& rest) const {
    Record(Phase::kForward, Quantity::kValue, module, matrix, rest);
  }
  void Gradient(const std::string& module, const Matrix<T>& matrix, const Shape& rest) const {
    Record(Phase::kBackward, Quantity::kGradient, module, matrix, rest);
  }
  void Value(const std::string& module, const Matrix<T>& matrix) const {
    Value(module, matrix, {matrix.cols()});
  }
  void Gradient(const std::string& module, const Matrix<T>& matrix) const {
    Gradient(module, matrix, {matrix.cols()});
  }
  AttentionShape attention() const {
    return {microbatch.batch,   config.num_attention_heads, config.num_query_groups,
            config.kv_channels, microbatch.first_key,       config.attention_dropout};
  }

 private:
  void Record(Phase phase, Quantity quantity, const std::string& module, const Matrix<T>& matrix,
              const Shape& rest) const {
    Shape shape = {microbatch.sequence, microbatch.batch};
    shape.insert(shape.end(), rest.begin(), rest.end());
    recorder.Record(phase, quantity, Name(module), layer, matrix, std::move(shape));
  }
};

template <class T>
struct Qkv {
  Matrix<T> q, k, v;
};

// What the backward reads of the forward.
template <class T>
struct LayerSaved {
  NormSaved<T> input_norm;
  Matrix<T> attention_input;
  Qkv<T> qkv;  // after rotation
  AttentionSaved<T> attention;
  Matrix<T> attention_output;
  KeepMask attention_keep;
  NormSaved<T> mlp_norm;
  Matrix<T> mlp_input;
  Matrix<T> fc1;
  Matrix<T> activation;
  KeepMask mlp_keep;
};

namespace internal {

// Calls copy(columns of qkv, columns of q, k or v) for every block of them.
template <class Fused, class Q, class KV, class Copy>
void ForEachQkvBlock(const TransformerConfig& config, Fused& fused, Q& q, KV& k, KV& v,
                     Copy&& copy) {
  const int64_t d = config.kv_channels;
  const int64_t queries = config.heads_per_group() * d;
  for (int64_t group = 0; group < config.num_query_groups; ++group) {
    const int64_t first = group * (queries + 2 * d);
    copy(fused.middleCols(first, queries), q.middleCols(group * queries, queries));
    copy(fused.middleCols(first + queries, d), k.middleCols(group * d, d));
    copy(fused.middleCols(first + queries + d, d), v.middleCols(group * d, d));
  }
}

template <class T>
Qkv<T> SplitQkv(const TransformerConfig& config, const Matrix<T>& fused) {
  const int64_t kv_size = config.num_query_groups * config.kv_channels;
  Qkv<T> parts = {Matrix<T>(fused.rows(), config.query_size()), Matrix<T>(fused.rows(), kv_size),
                  Matrix<T>(fused.rows(), kv_size)};
  ForEachQkvBlock(config, fused, parts.q, parts.k, parts.v,
                  [](const auto& from, auto&& to) { to = from; });
  return parts;
}

template <class T>
Matrix<T> MergeQkv(const TransformerConfig& config, const Qkv<T>& parts) {
  Matrix<T> fused(parts.q.rows(), config.qkv_size());
  ForEachQkvBlock(config, fused, parts.q, parts.k, parts.v,
                  [](auto&& to, const auto& from) { to = from; });
  return fused;
}

template <class T>
void RotateQueryAndKey(const LayerContext<T>& context, Qkv<T>& qkv,
                       Matrix<T> (*rotate)(Matrix<T>, const RotaryTable<T>&, int64_t, bool)) {
  const TransformerConfig& config = context.config;
  if (context.rotary.cos.cols() == 0) return;
  for (Matrix<T>* x : {&qkv.q, &qkv.k}) {
    *x = rotate(std::move(*x), context.rotary, config.kv_channels, config.rotary_interleaved);
  }
}

// From the normalised input to the output of linear_proj.
template <class T>
Matrix<T> SelfAttentionForward(const LayerContext<T>& context, const LayerParameters<T>& p,
                               LayerSaved<T>& saved) {
  const TransformerConfig& config = context.config;
  const Matrix<T> fused = LinearForward(saved.attention_input, p.qkv_weight, p.qkv_bias);
  context.Value("self_attention.linear_qkv", fused);
  saved.qkv = SplitQkv(config, fused);
  RotateQueryAndKey(context, saved.qkv, &RopeForward<T>);
  context.Value("self_attention.query", saved.qkv.q,
                {config.num_attention_heads, config.kv_channels});
  context.Value("self_attention.key", saved.qkv.k, {config.num_query_groups, config.kv_channels});

  saved.attention.keep = AttentionKeepMasks(
      context.microbatch.dropout, context.Name("self_attention.core_attention.dropout"),
      config.attention_dropout, config.num_attention_heads, context.microbatch.sequence);
  saved.attention_output =
      AttentionForward(context.attention(), saved.qkv.q, saved.qkv.k, saved.qkv.v, saved.attention);
  context.Value("self_attention.core_attention", saved.attention_output);
  Matrix<T> y = LinearForward(saved.attention_output, p.proj_weight, p.proj_bias);
  context.Value("self_attention.linear_proj", y);
  return y;
}

// From the gradient of linear_proj's output to that of the normalised input.
template <class T>
Matrix<T> SelfAttentionBackward(const LayerContext<T>& context, const Matrix<T>& dy,
                                const LayerParameters<T>& p, const LayerSaved<T>& saved,
                                LayerParameters<T>& d) {
  const TransformerConfig& config = context.config;
  context.Gradient("self_attention.linear_proj", dy);
  const Matrix<T> doutput =
      LinearBackward(dy, saved.attention_output, p.proj_weight, d.proj_weight, d.proj_bias);
  context.Gradient("self_attention.core_attention", doutput);
  AttentionGradients<T> heads = AttentionBackward(context.attention(), doutput, saved.qkv.q,
                                                  saved.qkv.k, saved.qkv.v, saved.attention);
  Qkv<T> dqkv = {std::move(heads.dq), std::move(heads.dk), std::move(heads.dv)};
  context.Gradient("self_attention.key", dqkv.k, {config.num_query_groups, config.kv_channels});
  context.Gradient("self_attention.query", dqkv.q,
                   {config.num_attention_heads, config.kv_channels});
  RotateQueryAndKey(context, dqkv, &RopeBackward<T>);
  const Matrix<T> dfused = MergeQkv(config, dqkv);
  context.Gradient("self_attention.linear_qkv", dfused);
  return LinearBackward(dfused, saved.attention_input, p.qkv_weight, d.qkv_weight, d.qkv_bias);
}

template <class T>
Matrix<T> MlpForward(const LayerContext<T>& context, const LayerParameters<T>& p,
                     LayerSaved<T>& saved) {
  saved.fc1 = LinearForward(saved.mlp_input, p.fc1_weight, p.fc1_bias);
  context.Value("mlp.linear_fc1", saved.fc1);
  saved.activation = ActivationForward(context.config.activation, saved.fc1);
  context.Value("mlp.activation_func", saved.activation);
  Matrix<T> y = LinearForward(saved.activation, p.fc2_weight, p.fc2_bias);
  context.Value("mlp.linear_fc2", y);
  return y;
}

template <class T>
Matrix<T> MlpBackward(const LayerContext<T>& context, const Matrix<T>& dy,
                      const LayerParameters<T>& p, const LayerSaved<T>& saved,
                      LayerParameters<T>& d) {
  context.Gradient("mlp.linear_fc2", dy);
  const Matrix<T> dactivation =
      LinearBackward(dy, saved.activation, p.fc2_weight, d.fc2_weight, d.fc2_bias);
  context.Gradient("mlp.activation_func", dactivation);
  const Matrix<T> dfc1 = ActivationBackward(context.config.activation, dactivation, saved.fc1);
  context.Gradient("mlp.linear_fc1", dfc1);
  return LinearBackward(dfc1, saved.mlp_input, p.fc1_weight, d.fc1_weight, d.fc1_bias);
}

}  // namespace internal

template <class T>
Matrix<T> LayerForward(const LayerContext<T>& context, const Matrix<T>& x,
                       const LayerParameters<T>& p, LayerSaved<T>& saved) {
  const TransformerConfig& config = context.config;
  const auto keep = [&](const std::string& module) {
    return HiddenKeepMask(context.microbatch.dropout, context.Name(module + ".dropout"),
                          config.hidden_dropout, context.microbatch.sequence, config.hidden_size);
  };
  saved.attention_input = NormForward(config.normalization, x, p.input_norm_weight,
                                      p.input_norm_bias, config.norm_epsilon, saved.input_norm);
  context.Value("input_layernorm", saved.attention_input);
  Matrix<T> attention = internal::SelfAttentionForward(context, p, saved);
  saved.attention_keep = keep("self_attn_bda");
  ApplyDropout(saved.attention_keep, config.hidden_dropout, attention);
  const Matrix<T> h = x + attention;
  context.Value("self_attn_bda", h);

  saved.mlp_input = NormForward(config.normalization, h, p.mlp_norm_weight, p.mlp_norm_bias,
                                config.norm_epsilon, saved.mlp_norm);
  context.Value("pre_mlp_layernorm", saved.mlp_input);
  Matrix<T> mlp = internal::MlpForward(context, p, saved);
  saved.mlp_keep = keep("mlp_bda");
  ApplyDropout(saved.mlp_keep, config.hidden_dropout, mlp);
  Matrix<T> y = h + mlp;
  context.Value("mlp_bda", y);
  return y;
}

// Adds to the parameters' gradients `d`; returns dx.
template <class T>
Matrix<T> LayerBackward(const LayerContext<T>& context, const Matrix<T>& dy,
                        const LayerParameters<T>& p, const LayerSaved<T>& saved,
                        LayerParameters<T>& d) {
  const TransformerConfig& config = context.config;
  context.Gradient("mlp_bda", dy);
  Matrix<T> dmlp = dy;
  ApplyDropout(saved.mlp_keep, config.hidden_dropout, dmlp);
  const Matrix<T> dmlp_input = internal::MlpBackward(context, dmlp, p, saved, d);
  context.Gradient("pre_mlp_layernorm", dmlp_input);
  const Matrix<T> dh = dy + NormBackward(config.normalization, dmlp_input, p.mlp_norm_weight,
                                         saved.mlp_norm, d.mlp_norm_weight, d.mlp_norm_bias);

  context.Gradient("self_attn_bda", dh);
  Matrix<T> dattention = dh;
  ApplyDropout(saved.attention_keep, config.hidden_dropout, dattention);
  const Matrix<T> dinput = internal::SelfAttentionBackward(context, dattention, p, saved, d);
  context.Gradient("input_layernorm", dinput);
  return dh + NormBackward(config.normalization, dinput, p.input_norm_weight, saved.input_norm,
                           d.input_norm_weight, d.input_norm_bias);
}

}  // namespace plumbline

#endif  // PLUMBLINE_ORACLE_LAYER_H_
