#include "oracle/parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/oracle/fixtures.h"

namespace plumbline {
namespace {

std::vector<std::string> Lines(const TransformerConfig& config) {
  std::vector<std::string> lines;
  for (const ParameterSpec& spec : ParameterSpecs(config)) {
    lines.push_back(spec.name + " " + ToString(spec.shape) + (spec.decays() ? " decays" : ""));
  }
  return lines;
}

TEST(ParametersTest, OrderAndShapesAreDocsSites) {
  TransformerConfig config = Gpt2Case().model;
  config.num_layers = 1;
  EXPECT_THAT(Lines(config),
              testing::ElementsAre(
                  "embedding.word_embeddings.weight [37, 16] decays",
                  "embedding.position_embeddings.weight [13, 16] decays",
                  "decoder.layers.0.input_layernorm.weight [16]",
                  "decoder.layers.0.input_layernorm.bias [16]",
                  "decoder.layers.0.self_attention.linear_qkv.weight [96, 16] decays",
                  "decoder.layers.0.self_attention.linear_qkv.bias [96]",
                  "decoder.layers.0.self_attention.linear_proj.weight [16, 32] decays",
                  "decoder.layers.0.self_attention.linear_proj.bias [16]",
                  "decoder.layers.0.pre_mlp_layernorm.weight [16]",
                  "decoder.layers.0.pre_mlp_layernorm.bias [16]",
                  "decoder.layers.0.mlp.linear_fc1.weight [24, 16] decays",
                  "decoder.layers.0.mlp.linear_fc1.bias [24]",
                  "decoder.layers.0.mlp.linear_fc2.weight [16, 24] decays",
                  "decoder.layers.0.mlp.linear_fc2.bias [16]",
                  "decoder.final_layernorm.weight [16]", "decoder.final_layernorm.bias [16]"));
}

TEST(ParametersTest, GatedUntiedModelWithoutBiases) {
  TransformerConfig config = LlamaCase().model;
  config.num_layers = 1;
  config.add_qkv_bias = true;
  EXPECT_THAT(Lines(config),
              testing::ElementsAre(
                  "embedding.word_embeddings.weight [37, 16] decays",
                  "decoder.layers.0.input_layernorm.weight [16]",
                  "decoder.layers.0.self_attention.linear_qkv.weight [64, 16] decays",
                  "decoder.layers.0.self_attention.linear_qkv.bias [64]",
                  "decoder.layers.0.self_attention.linear_proj.weight [16, 32] decays",
                  "decoder.layers.0.pre_mlp_layernorm.weight [16]",
                  "decoder.layers.0.mlp.linear_fc1.weight [48, 16] decays",
                  "decoder.layers.0.mlp.linear_fc2.weight [16, 24] decays",
                  "decoder.final_layernorm.weight [16]", "output_layer.weight [37, 16] decays"));
}

TEST(ParametersTest, EveryCaseHasAMatrixForEachSpecOfItsShape) {
  for (const ModelCase& c : AllCases()) {
    const std::vector<ParameterSpec> specs = ParameterSpecs(c.model);
    Parameters<double> parameters =
        LoadParameters<double>(c.model, SeededParameters(c.model, c.train.seed));
    const std::vector<Matrix<double>*> matrices = ParameterMatrices(specs, parameters);
    ASSERT_EQ(matrices.size(), specs.size()) << c.name;
    for (size_t i = 0; i < specs.size(); ++i) {
      Tensor values = Tensor::Empty(Context{}, DType::kF64, specs[i].shape);
      SeededParameters(c.model, c.train.seed).FillWhole(specs[i].name, values);
      EXPECT_EQ(*matrices[i], ToMatrix<double>(values)) << c.name << " " << specs[i].name;
      EXPECT_EQ(specs[i].layer >= 0, specs[i].name.starts_with("decoder.layers."));
    }
    EXPECT_EQ(parameters.tied(), c.model.tied_embeddings);
  }
}

TEST(ParametersTest, AMissingParameterIsNamed) {
  const GivenParameters none({});
  EXPECT_THROW(LoadParameters<double>(Gpt2Case().model, none), InvalidArgument);
}

}  // namespace
}  // namespace plumbline
