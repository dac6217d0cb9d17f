#include "parallel/model/norm.h"

#include <gtest/gtest.h>

#include <tuple>

#include "base/compare.h"
#include "tests/parallel/model/directional_derivative.h"
#include "tests/parallel/tensor/module_world.h"

namespace plumbline {
namespace {

class NormTest : public testing::TestWithParam<Normalization> {
 protected:
  RunConfig config(int tp, bool sequence_parallel) const {
    RunConfig config = TensorParallelConfig(tp, sequence_parallel);
    config.model.normalization = GetParam();
    return config;
  }
  Shape HiddenShape() const { return {8, 2, config(1, false).model.hidden_size}; }
};

TEST_P(NormTest, SequenceParallelRowsAreBitEqualToTheWhole) {
  const Tensor x = Numbers(HiddenShape(), 1);
  Tensor whole;
  OnEachRank(config(1, false), [&](const RankEnv& env) {
    const Norm norm(env, ActivationLayouts(env, QkvLayout(env)), 0, "norm");
    Norm::Saved saved;
    whole = norm.Forward(ForwardPass(), x, saved).Clone(Context{});
  });
  OnEachRank(config(4, true), [&](const RankEnv& env) {
    const ActivationLayouts layouts(env, QkvLayout(env));
    const Norm norm(env, layouts, 0, "norm");
    Norm::Saved saved;
    const Tensor y = norm.Forward(ForwardPass(), PieceOfWhole(x, layouts.hidden.piece), saved);
    EXPECT_TRUE(BitEqual(y, PieceOfWhole(whole, layouts.hidden.piece)));
  });
}

TEST_P(NormTest, BackwardIsTheDerivative) {
  OnEachRank(config(1, false), [&](const RankEnv& env) {
    Norm norm(env, ActivationLayouts(env, QkvLayout(env)), 0, "norm");
    Tensor x = Numbers(HiddenShape(), 1);
    const Tensor dy = Numbers(HiddenShape(), 2);
    Norm::Saved saved;
    const auto value = [&] { return InnerProduct(dy, norm.Forward(ForwardPass(), x, saved)); };
    value();
    const Tensor dx = norm.Backward(BackwardPass(), dy, saved);
    EXPECT_LE(DerivativeError(x, dx, value, 3), 1e-9);
    std::vector<Parameter*> parameters;
    norm.AppendParameters(parameters);
    EXPECT_EQ(parameters.size(), GetParam() == Normalization::kLayerNorm ? 2u : 1u);
    for (Parameter* parameter : parameters) {
      EXPECT_LE(DerivativeError(parameter->value, parameter->main_grad, value, 4), 1e-9)
          << parameter->name();
    }
  });
}

TEST_P(NormTest, ParametersAreTermsOfASumUnderSequenceParallelism) {
  for (bool sequence_parallel : {false, true}) {
    OnEachRank(config(2, sequence_parallel), [&](const RankEnv& env) {
      Norm norm(env, ActivationLayouts(env, QkvLayout(env)), 0, "norm");
      std::vector<Parameter*> parameters;
      norm.AppendParameters(parameters);
      for (const Parameter* parameter : parameters) {
        EXPECT_EQ(parameter->sequence_parallel, sequence_parallel);
        EXPECT_FALSE(parameter->tensor_parallel);
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, NormTest,
                         testing::Values(Normalization::kLayerNorm, Normalization::kRmsNorm),
                         [](const auto& info) { return std::string(Name(info.param)); });

}  // namespace
}  // namespace plumbline
