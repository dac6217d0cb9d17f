#include "parallel/model/self_attention.h"

#include <numeric>
#include <utility>

#include "base/rng.h"
#include "kernels/rope.h"
#include "parallel/model/hidden_dropout.h"

namespace plumbline {
namespace {

ColumnParallelLinear::Options QkvOptions(const RankEnv& env, const QkvLayout& qkv_layout,
                                         int32_t layer, const std::string& prefix) {
  return {.layer = layer,
          .name = prefix + "self_attention.linear_qkv",
          .input_tensor = prefix + "input_layernorm",
          .input_size = env.model().hidden_size,
          .output_size = env.model().qkv_size(),
          .cut = qkv_layout.RowCut(),
          .bias = env.model().qkv_bias()};
}

RowParallelLinear::Options ProjOptions(const RankEnv& env, int32_t layer,
                                       const std::string& prefix) {
  return {.layer = layer,
          .name = prefix + "self_attention.linear_proj",
          .input_size = env.model().query_size(),
          .output_size = env.model().hidden_size,
          .bias = env.model().add_bias_linear,
          .skip_bias_add = true};
}

std::vector<int64_t> AllPositions(int64_t sequence) {
  std::vector<int64_t> positions(static_cast<size_t>(sequence));
  std::iota(positions.begin(), positions.end(), 0);
  return positions;
}

}  // namespace

SelfAttention::SelfAttention(const RankEnv& env, const ActivationLayouts& layouts,
                             const QkvLayout& qkv_layout, int32_t layer, const std::string& prefix)
    : env_(env),
      qkv_layout_(qkv_layout),
      qkv_tap_(layer, Named(layouts.qkv, prefix + "self_attention.linear_qkv"),
               layouts.qkv_gradient),
      query_tap_(layer, Named(layouts.query, prefix + "self_attention.query")),
      key_tap_(layer, Named(layouts.key, prefix + "self_attention.key"), layouts.key_gradient),
      context_tap_(layer, Named(layouts.context, prefix + "self_attention.core_attention")),
      linear_qkv_(env, QkvOptions(env, qkv_layout, layer, prefix)),
      linear_proj_(env, ProjOptions(env, layer, prefix)),
      dropout_hash_(HashOfName(prefix + "self_attention.core_attention.dropout")) {
  linear_qkv_.weight().replicated_rows = qkv_layout.CopiedRows();
  if (linear_qkv_.bias()) linear_qkv_.bias()->replicated_rows = qkv_layout.CopiedRows();
  if (env.model().position_embedding == PositionEmbedding::kRope) {
    inverse_frequencies_ = RotaryInverseFrequencies(env.model());
  }
  options_.query_positions = AllPositions(env.model().seq_length);
  options_.key_positions = options_.query_positions;
  options_.first_head = qkv_layout.first_head();
  options_.global_sequence = env.model().seq_length;
}

AttentionOptions SelfAttention::OptionsAt(const Pass& pass) const {
  AttentionOptions options = options_;
  options.dropout = DropoutKeyAt(env_, pass, env_.model().attention_dropout, dropout_hash_);
  if (pass.data->packed) options.document_ids = pass.data->batch.document_ids;
  return options;
}

RowParallelLinear::Output SelfAttention::Forward(const Pass& pass, const Tensor& x,
                                                 Saved& saved) const {
  const Context& context = env_.context();
  const TransformerConfig& model = env_.model();
  const Tensor mixed = linear_qkv_.Forward(pass, x, saved.linear_qkv);
  qkv_tap_.ShowValue(env_, pass, mixed);
  saved.qkv = qkv_layout_.Split(mixed, qkv_tap_.At(pass, Quantity::kValue));
  auto& [q, k, v] = saved.qkv;
  if (!inverse_frequencies_.empty()) {
    const Tensor& positions = pass.data->batch.position_ids;
    q = RopeForward(context, q, positions, inverse_frequencies_, model.rotary_interleaved);
    k = RopeForward(context, k, positions, inverse_frequencies_, model.rotary_interleaved);
  }
  query_tap_.ShowValue(env_, pass, q);
  key_tap_.ShowValue(env_, pass, k);
  saved.options = OptionsAt(pass);
  saved.attention = env_.policies().attention_forward(context, q, k, v, saved.options);
  const Tensor& out = saved.attention.out;
  const Tensor flat = out.View({out.dim(0), out.dim(1), -1});
  context_tap_.ShowValue(env_, pass, flat);
  return linear_proj_.Forward(pass, flat, saved.linear_proj);
}

Tensor SelfAttention::Backward(const Pass& pass, const Tensor& dy, const Saved& saved) {
  const Context& context = env_.context();
  const TransformerConfig& model = env_.model();
  const auto& [q, k, v] = saved.qkv;
  const Tensor dflat = linear_proj_.Backward(pass, dy, saved.linear_proj);
  context_tap_.ShowGradient(env_, pass, dflat);
  auto [dq, dk, dv] = AttentionBackward(context, dflat.View(saved.attention.out.shape()), q, k, v,
                                        saved.attention.out, saved.attention.lse, saved.options);
  query_tap_.ShowGradient(env_, pass, dq);
  key_tap_.ShowGradient(env_, pass, dk);
  if (!inverse_frequencies_.empty()) {
    const Tensor& positions = pass.data->batch.position_ids;
    dq = RopeBackward(context, dq, positions, inverse_frequencies_, model.rotary_interleaved);
    dk = RopeBackward(context, dk, positions, inverse_frequencies_, model.rotary_interleaved);
  }
  const Tensor dmixed = qkv_layout_.Merge({dq, dk, dv}, qkv_tap_.At(pass, Quantity::kGradient));
  qkv_tap_.ShowGradient(env_, pass, dmixed);
  return linear_qkv_.Backward(pass, dmixed, saved.linear_qkv);
}

void SelfAttention::AppendParameters(std::vector<Parameter*>& parameters) {
  linear_qkv_.AppendParameters(parameters);
  linear_proj_.AppendParameters(parameters);
}

}  // namespace plumbline
