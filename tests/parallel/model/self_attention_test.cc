#include "parallel/model/self_attention.h"

#include <gtest/gtest.h>

#include "base/compare.h"
#include "kernels/elementwise.h"
#include "tests/parallel/model/directional_derivative.h"
#include "tests/parallel/tensor/module_world.h"

namespace plumbline {
namespace {

constexpr char kPrefix[] = "decoder.layers.0.";

struct Case {
  int tp;
  int64_t groups;
  GqaPolicy policy;
  bool rope;
  bool packed;
  double dropout;
};

std::string CaseName(const Case& c) {
  return "tp" + std::to_string(c.tp) + "groups" + std::to_string(c.groups) +
         (c.policy == GqaPolicy::kReplicateKv ? "replicate" : "gather") + (c.rope ? "rope" : "") +
         (c.packed ? "packed" : "") + (c.dropout > 0 ? "dropout" : "");
}
void PrintTo(const Case& c, std::ostream* out) { *out << CaseName(c); }

RunConfig AttentionConfig(const Case& c, int tp, bool sequence_parallel) {
  RunConfig config = TensorParallelConfig(tp, sequence_parallel);
  config.model.hidden_size = 12;
  config.model.num_attention_heads = 8;
  config.model.num_query_groups = c.groups;
  config.model.kv_channels = 4;
  config.model.attention_dropout = c.dropout;
  config.model.position_embedding = c.rope ? PositionEmbedding::kRope : PositionEmbedding::kNone;
  config.parallel.gqa_policy = c.policy;
  return config;
}

const Shape kHiddenShape = {8, 2, 12};

struct WholeResult {
  Tensor y = ZeroTensor(kHiddenShape);
  Tensor dx = ZeroTensor(kHiddenShape);
  Tensor qkv_grad;  // summed over the ranks that hold copies of a row
};

WholeResult RunAttention(const RunConfig& config, bool packed) {
  const Microbatch microbatch = TestMicrobatch(config, packed);
  const Tensor x = Numbers(kHiddenShape, 1);
  const Tensor dy = Numbers(kHiddenShape, 2);
  WholeResult result;
  result.qkv_grad = ZeroTensor({config.model.qkv_size(), config.model.hidden_size});
  OnEachRank(config, [&](const RankEnv& env) {
    const QkvLayout qkv_layout(env);
    const ActivationLayouts layouts(env, qkv_layout);
    const LocalPiece& hidden = layouts.hidden.piece;
    SelfAttention attention(env, layouts, qkv_layout, 0, kPrefix);
    SelfAttention::Saved saved;
    const Pass forward{.data = &microbatch};
    const Pass backward{.phase = Phase::kBackward, .data = &microbatch};
    PutPiece(attention.Forward(forward, PieceOfWhole(x, hidden), saved).y, hidden, result.y);
    PutPiece(attention.Backward(backward, PieceOfWhole(dy, hidden), saved), hidden, result.dx);
    std::vector<Parameter*> parameters;
    attention.AppendParameters(parameters);
    Tensor terms = ZeroTensor(result.qkv_grad.shape());
    PutPiece(parameters[0]->main_grad, parameters[0]->layout.piece, terms);
    AddInto(Context{}, result.qkv_grad, terms);
  });
  return result;
}

class SelfAttentionTest : public testing::TestWithParam<Case> {};

TEST_P(SelfAttentionTest, EqualsTheUnshardedBlock) {
  const Case& c = GetParam();
  const WholeResult whole = RunAttention(AttentionConfig(c, 1, false), c.packed);
  for (bool sequence_parallel : {false, true}) {
    const WholeResult sharded = RunAttention(AttentionConfig(c, c.tp, sequence_parallel), c.packed);
    EXPECT_LE(Deviation(sharded.y, whole.y), 1e-14);
    EXPECT_LE(Deviation(sharded.dx, whole.dx), 1e-13);
    EXPECT_LE(Deviation(sharded.qkv_grad, whole.qkv_grad), 1e-13);
  }
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (int tp : {2, 4, 8}) {
    for (int64_t groups : {1, 2, 4, 8}) {
      cases.push_back({tp, groups, GqaPolicy::kGatherQkv, true, false, 0});
      cases.push_back({tp, groups, GqaPolicy::kGatherQkv, false, true, 0.3});
      if (groups >= tp) continue;
      cases.push_back({tp, groups, GqaPolicy::kReplicateKv, true, true, 0.3});
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Cases, SelfAttentionTest, testing::ValuesIn(Cases()),
                         [](const auto& info) { return CaseName(info.param); });

TEST(SelfAttention, BackwardIsTheDerivative) {
  for (bool packed : {false, true}) {
    const Case c = {1, 2, GqaPolicy::kGatherQkv, true, packed, 0.2};
    const RunConfig config = AttentionConfig(c, 1, false);
    const Microbatch microbatch = TestMicrobatch(config, packed);
    OnEachRank(config, [&](const RankEnv& env) {
      const QkvLayout qkv_layout(env);
      SelfAttention attention(env, ActivationLayouts(env, qkv_layout), qkv_layout, 0, kPrefix);
      Tensor x = Numbers(kHiddenShape, 1);
      const Tensor dy = Numbers(kHiddenShape, 2);
      const Pass forward{.data = &microbatch};
      SelfAttention::Saved saved;
      const auto value = [&] { return InnerProduct(dy, attention.Forward(forward, x, saved).y); };
      value();
      const Tensor dx =
          attention.Backward({.phase = Phase::kBackward, .data = &microbatch}, dy, saved);
      EXPECT_LE(DerivativeError(x, dx, value, 3), 1e-8);
      std::vector<Parameter*> parameters;
      attention.AppendParameters(parameters);
      // The bias of linear_proj is handed on: what adds it is not here.
      parameters.pop_back();
      for (Parameter* parameter : parameters) {
        EXPECT_LE(DerivativeError(parameter->value, parameter->main_grad, value, 4), 1e-8)
            << parameter->name();
      }
    });
  }
}

}  // namespace
}  // namespace plumbline
