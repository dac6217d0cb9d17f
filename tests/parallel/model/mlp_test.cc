#include "parallel/model/mlp.h"

#include <gtest/gtest.h>

#include <tuple>

#include "base/compare.h"
#include "tests/parallel/model/directional_derivative.h"
#include "tests/parallel/tensor/module_world.h"

namespace plumbline {
namespace {

RunConfig MlpConfig(Activation activation, int tp, bool sequence_parallel) {
  RunConfig config = TensorParallelConfig(tp, sequence_parallel);
  config.model.hidden_size = 12;
  config.model.ffn_hidden_size = 24;
  config.model.activation = activation;
  return config;
}

const Shape kHiddenShape = {8, 2, 12};

// Forward and backward on all ranks, put together.
struct WholeResult {
  Tensor y = ZeroTensor(kHiddenShape);
  Tensor dx = ZeroTensor(kHiddenShape);
  Tensor fc1_grad;
};

WholeResult RunMlp(const RunConfig& config) {
  const Tensor x = Numbers(kHiddenShape, 1);
  const Tensor dy = Numbers(kHiddenShape, 2);
  WholeResult result;
  result.fc1_grad = ZeroTensor({config.model.fc1_size(), config.model.hidden_size});
  OnEachRank(config, [&](const RankEnv& env) {
    const ActivationLayouts layouts(env, QkvLayout(env));
    const LocalPiece& hidden = layouts.hidden.piece;
    Mlp mlp(env, layouts, 0, "decoder.layers.0.");
    Mlp::Saved saved;
    PutPiece(mlp.Forward(ForwardPass(), PieceOfWhole(x, hidden), saved).y, hidden, result.y);
    PutPiece(mlp.Backward(BackwardPass(), PieceOfWhole(dy, hidden), saved), hidden, result.dx);
    std::vector<Parameter*> parameters;
    mlp.AppendParameters(parameters);
    PutPiece(parameters[0]->main_grad, parameters[0]->layout.piece, result.fc1_grad);
  });
  return result;
}

class MlpTest : public testing::TestWithParam<Activation> {};

TEST_P(MlpTest, EqualsTheUnshardedBlock) {
  const WholeResult whole = RunMlp(MlpConfig(GetParam(), 1, false));
  for (int tp : {2, 4}) {
    for (bool sequence_parallel : {false, true}) {
      const WholeResult sharded = RunMlp(MlpConfig(GetParam(), tp, sequence_parallel));
      EXPECT_LE(Deviation(sharded.y, whole.y), 1e-14);
      EXPECT_LE(Deviation(sharded.dx, whole.dx), 1e-13);
      EXPECT_LE(Deviation(sharded.fc1_grad, whole.fc1_grad), 1e-13);
    }
  }
}

TEST_P(MlpTest, BackwardIsTheDerivative) {
  OnEachRank(MlpConfig(GetParam(), 1, false), [](const RankEnv& env) {
    Mlp mlp(env, ActivationLayouts(env, QkvLayout(env)), 0, "decoder.layers.0.");
    Tensor x = Numbers(kHiddenShape, 1);
    const Tensor dy = Numbers(kHiddenShape, 2);
    Mlp::Saved saved;
    const auto value = [&] { return InnerProduct(dy, mlp.Forward(ForwardPass(), x, saved).y); };
    value();
    const Tensor dx = mlp.Backward(BackwardPass(), dy, saved);
    // Squared ReLU has a kink in its derivative, so that differences are of lower order there.
    const double bound = env.model().activation == Activation::kSquaredRelu ? 1e-4 : 1e-8;
    EXPECT_LE(DerivativeError(x, dx, value, 3), bound);
    std::vector<Parameter*> parameters;
    mlp.AppendParameters(parameters);
    // The bias of linear_fc2 is handed on: what adds it is not here.
    parameters.pop_back();
    for (Parameter* parameter : parameters) {
      EXPECT_LE(DerivativeError(parameter->value, parameter->main_grad, value, 4), bound)
          << parameter->name();
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Kinds, MlpTest,
                         testing::Values(Activation::kGeluTanh, Activation::kGeluErf,
                                         Activation::kSquaredRelu, Activation::kSwiglu),
                         [](const auto& info) { return std::string(Name(info.param)); });

}  // namespace
}  // namespace plumbline
