#include "parallel/model/activation_layouts.h"

#include <gtest/gtest.h>

#include "tests/parallel/tensor/module_world.h"

namespace plumbline {
namespace {

RunConfig LayoutConfig(GqaPolicy policy) {
  RunConfig config = TensorParallelConfig(4, true);
  config.model.num_query_groups = 2;
  config.parallel.gqa_policy = policy;
  return config;
}

TEST(ActivationLayouts, LocalShapesAreThoseOfTheModules) {
  OnEachRank(LayoutConfig(GqaPolicy::kGatherQkv), [](const RankEnv& env) {
    const TransformerConfig& model = env.model();
    const ActivationLayouts layouts(env, QkvLayout(env));
    EXPECT_EQ(layouts.hidden.piece.local_shape, (Shape{2, 2, model.hidden_size}));
    EXPECT_EQ(layouts.whole_hidden.piece.local_shape, (Shape{8, 2, model.hidden_size}));
    EXPECT_EQ(layouts.qkv.piece.local_shape, (Shape{8, 2, model.qkv_size() / 4}));
    EXPECT_EQ(layouts.query.piece.local_shape, (Shape{8, 2, 2, model.kv_channels}));
    EXPECT_EQ(layouts.key.piece.local_shape, (Shape{8, 2, 1, model.kv_channels}));
    EXPECT_EQ(layouts.context.piece.local_shape, (Shape{8, 2, model.query_size() / 4}));
    // 19 classes in blocks of 5: the last rank has padding.
    EXPECT_EQ(layouts.logits.piece.local_shape, (Shape{8, 2, 5}));
    EXPECT_EQ(layouts.logits.piece.global_index[4],
              env.tp_rank() == 3 ? -1 : env.tp_rank() * 5 + 4);
    EXPECT_EQ(layouts.tokens.piece.local_shape, (Shape{8, 2}));
    EXPECT_TRUE(layouts.tokens.piece.whole);
  });
}

TEST(ActivationLayouts, GradientsOfCopiesAreTermsOfASum) {
  OnEachRank(LayoutConfig(GqaPolicy::kGatherQkv), [](const RankEnv& env) {
    const ActivationLayouts layouts(env, QkvLayout(env));
    EXPECT_TRUE(IsPartialOver(layouts.key_gradient.tensor, "tp"));
    EXPECT_FALSE(IsPartialOver(layouts.qkv_gradient.tensor, "tp"));
  });
  OnEachRank(LayoutConfig(GqaPolicy::kReplicateKv), [](const RankEnv& env) {
    const ActivationLayouts layouts(env, QkvLayout(env));
    EXPECT_TRUE(IsPartialOver(layouts.key_gradient.tensor, "tp"));
    EXPECT_TRUE(IsPartialOver(layouts.qkv_gradient.tensor, "tp"));
    EXPECT_FALSE(IsPartialOver(layouts.qkv.tensor, "tp"));
    EXPECT_EQ(layouts.qkv.piece.local_shape, (Shape{8, 2, 4 * env.model().kv_channels}));
  });
}

}  // namespace
}  // namespace plumbline
