#include "parallel/model/language_model_embedding.h"

#include <gtest/gtest.h>

#include <tuple>

#include "base/compare.h"
#include "tests/parallel/model/directional_derivative.h"
#include "tests/parallel/tensor/module_world.h"

namespace plumbline {
namespace {

RunConfig EmbeddingConfig(PositionEmbedding positions, int tp, bool sequence_parallel) {
  RunConfig config = TensorParallelConfig(tp, sequence_parallel);
  config.model.position_embedding = positions;
  config.model.hidden_dropout = 0.25;
  return config;
}

struct WholeResult {
  Tensor y;
  std::vector<Tensor> gradients;
};

WholeResult RunEmbedding(const RunConfig& config) {
  const Microbatch microbatch = TestMicrobatch(config, /*packed=*/true);
  const Shape shape = {8, 2, config.model.hidden_size};
  const Tensor dy = Numbers(shape, 2);
  WholeResult result = {ZeroTensor(shape), {}};
  OnEachRank(config, [&](const RankEnv& env) {
    const ActivationLayouts layouts(env, QkvLayout(env));
    const LocalPiece& hidden = layouts.hidden.piece;
    LanguageModelEmbedding embedding(env, layouts);
    PutPiece(embedding.Forward({.data = &microbatch}), hidden, result.y);
    embedding.Backward({.phase = Phase::kBackward, .data = &microbatch}, PieceOfWhole(dy, hidden));
    std::vector<Parameter*> parameters;
    embedding.AppendParameters(parameters);
    for (size_t i = 0; i < parameters.size(); ++i) {
      const ObservedLayout& layout = parameters[i]->layout;
      if (result.gradients.size() <= i) {
        result.gradients.push_back(ZeroTensor(layout.tensor.global_shape));
      }
      PutPiece(parameters[i]->main_grad, layout.piece, result.gradients[i]);
      // No rank lacks a term: neither parameter is summed over tp.
      EXPECT_FALSE(parameters[i]->sequence_parallel);
    }
  });
  return result;
}

class LanguageModelEmbeddingTest : public testing::TestWithParam<PositionEmbedding> {};

TEST_P(LanguageModelEmbeddingTest, IsExactlyTheUnshardedEmbedding) {
  const WholeResult whole = RunEmbedding(EmbeddingConfig(GetParam(), 1, false));
  EXPECT_EQ(whole.gradients.size(), GetParam() == PositionEmbedding::kLearnedAbsolute ? 2u : 1u);
  for (int tp : {2, 4, 8}) {
    for (bool sequence_parallel : {false, true}) {
      const WholeResult sharded = RunEmbedding(EmbeddingConfig(GetParam(), tp, sequence_parallel));
      EXPECT_LE(Deviation(sharded.y, whole.y), 0);
      for (size_t i = 0; i < whole.gradients.size(); ++i) {
        EXPECT_TRUE(BitEqual(sharded.gradients[i], whole.gradients[i]));
      }
    }
  }
}

TEST_P(LanguageModelEmbeddingTest, BackwardIsTheDerivative) {
  const RunConfig config = EmbeddingConfig(GetParam(), 1, false);
  const Microbatch microbatch = TestMicrobatch(config, /*packed=*/true);
  OnEachRank(config, [&](const RankEnv& env) {
    LanguageModelEmbedding embedding(env, ActivationLayouts(env, QkvLayout(env)));
    const Tensor dy = Numbers({8, 2, config.model.hidden_size}, 2);
    const auto value = [&] { return InnerProduct(dy, embedding.Forward({.data = &microbatch})); };
    embedding.Backward({.phase = Phase::kBackward, .data = &microbatch}, dy);
    std::vector<Parameter*> parameters;
    embedding.AppendParameters(parameters);
    for (Parameter* parameter : parameters) {
      EXPECT_LE(DerivativeError(parameter->value, parameter->main_grad, value, 4), 1e-9)
          << parameter->name();
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Kinds, LanguageModelEmbeddingTest,
                         testing::Values(PositionEmbedding::kNone,
                                         PositionEmbedding::kLearnedAbsolute),
                         [](const auto& info) {
                           return info.param == PositionEmbedding::kNone ? "words" : "positions";
                         });

}  // namespace
}  // namespace plumbline
