#include "parallel/model/activation_layouts.h"

#include <utility>
#include <vector>

#include "parallel/tensor/parameter.h"
#include "parallel/tensor/tap.h"

namespace plumbline {
namespace {

ObservedLayout Layout(const RankEnv& env, std::vector<int64_t> tail,
                      std::vector<AxisPlacement> placements) {
  Shape shape = {env.model().seq_length, env.config().train.micro_batch_size};
  shape.insert(shape.end(), tail.begin(), tail.end());
  return MakeLayout(env, {"", std::move(shape), std::move(placements)});
}

std::vector<AxisPlacement> HiddenPlacement(const RankEnv& env) {
  if (!env.sequence_parallel()) return {};
  return {BlockCut()(0)};
}

// Where several ranks hold a copy of a value, each has its own term of the gradient.
std::vector<AxisPlacement> Terms(AxisPlacement placement, bool copies) {
  std::vector<AxisPlacement> result = {std::move(placement)};
  if (copies) result.push_back(Partial("tp"));
  return result;
}

}  // namespace

ActivationLayouts::ActivationLayouts(const RankEnv& env, const QkvLayout& qkv_layout) {
  const TransformerConfig& model = env.model();
  const int64_t head_size = model.kv_channels;
  const AxisPlacement rows = qkv_layout.RowCut()(2);
  const AxisPlacement keys = qkv_layout.KeyCut()(2);
  hidden = Layout(env, {model.hidden_size}, HiddenPlacement(env));
  whole_hidden = Layout(env, {model.hidden_size}, {});
  qkv = Layout(env, {model.qkv_size()}, {rows});
  qkv_gradient = Layout(env, {model.qkv_size()}, Terms(rows, qkv_layout.replicates_rows()));
  query = Layout(env, {model.num_attention_heads, head_size}, {qkv_layout.QueryCut()(2)});
  key = Layout(env, {model.num_query_groups, head_size}, {keys});
  key_gradient =
      Layout(env, {model.num_query_groups, head_size}, Terms(keys, qkv_layout.replicas() > 1));
  context = Layout(env, {model.query_size()}, {BlockCut()(2)});
  fc1 = Layout(env, {model.fc1_size()}, {SegmentsCut(model.swiglu() ? 2 : 1)(2)});
  activation = Layout(env, {model.ffn_hidden_size}, {BlockCut()(2)});
  logits = Layout(env, {model.padded_vocab_size}, {PaddedBlockCut()(2)});
  tokens = Layout(env, {}, {});
}

}  // namespace plumbline
