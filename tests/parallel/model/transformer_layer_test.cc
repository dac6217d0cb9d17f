#include "parallel/model/transformer_layer.h"

#include <gtest/gtest.h>

#include "base/compare.h"
#include "tests/parallel/model/directional_derivative.h"
#include "tests/parallel/tensor/module_world.h"

namespace plumbline {
namespace {

TEST(TransformerLayer, BackwardIsTheDerivative) {
  RunConfig config = TensorParallelConfig(1, false);
  config.model.hidden_size = 12;
  config.model.ffn_hidden_size = 24;
  config.model.hidden_dropout = 0.2;
  const Microbatch microbatch = TestMicrobatch(config, /*packed=*/false);
  OnEachRank(config, [&](const RankEnv& env) {
    const QkvLayout qkv_layout(env);
    TransformerLayer layer(env, ActivationLayouts(env, qkv_layout), qkv_layout, 3);
    Tensor x = Numbers({8, 2, 12}, 1);
    const Tensor dy = Numbers({8, 2, 12}, 2);
    TransformerLayer::Saved saved;
    const auto value = [&] {
      return InnerProduct(dy, layer.Forward({.data = &microbatch}, x, saved));
    };
    value();
    const Tensor dx = layer.Backward({.phase = Phase::kBackward, .data = &microbatch}, dy, saved);
    EXPECT_LE(DerivativeError(x, dx, value, 3), 1e-8);
    std::vector<Parameter*> parameters;
    layer.AppendParameters(parameters);
    for (Parameter* parameter : parameters) {
      EXPECT_LE(DerivativeError(parameter->value, parameter->main_grad, value, 4), 1e-8)
          << parameter->name();
    }
  });
}

TEST(TransformerLayer, NamesCarryTheGlobalLayerNumberInMegatronsOrder) {
  OnEachRank(TensorParallelConfig(1, false), [](const RankEnv& env) {
    const QkvLayout qkv_layout(env);
    TransformerLayer layer(env, ActivationLayouts(env, qkv_layout), qkv_layout, 17);
    std::vector<Parameter*> parameters;
    layer.AppendParameters(parameters);
    std::vector<std::string> names;
    for (const Parameter* parameter : parameters) {
      EXPECT_EQ(parameter->layer, 17);
      names.push_back(parameter->name().substr(std::string("decoder.layers.17.").size()));
    }
    EXPECT_EQ(names,
              (std::vector<std::string>{
                  "input_layernorm.weight", "input_layernorm.bias",
                  "self_attention.linear_qkv.weight", "self_attention.linear_qkv.bias",
                  "self_attention.linear_proj.weight", "self_attention.linear_proj.bias",
                  "pre_mlp_layernorm.weight", "pre_mlp_layernorm.bias", "mlp.linear_fc1.weight",
                  "mlp.linear_fc1.bias", "mlp.linear_fc2.weight", "mlp.linear_fc2.bias"}));
  });
}

}  // namespace
}  // namespace plumbline
