// A GPT's parameters: names and shapes as Megatron-Core has them, and the matrices.
//
// Gradients, moments and tangents have the same shape, so they are Parameters too.
#ifndef PLUMBLINE_ORACLE_PARAMETERS_H_
#define PLUMBLINE_ORACLE_PARAMETERS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/config.h"
#include "base/init.h"
#include "base/tensor.h"
#include "oracle/matrix.h"

namespace plumbline {

struct ParameterSpec {
  std::string name;
  Shape shape;
  int32_t layer = -1;

  // Two dimensions and no bias.
  bool decays() const { return shape.size() == 2; }
};

// Every parameter of the model, in the order of docs/sites.md.
std::vector<ParameterSpec> ParameterSpecs(const TransformerConfig& config);

template <class T>
struct LayerParameters {
  Matrix<T> input_norm_weight, input_norm_bias;
  Matrix<T> qkv_weight, qkv_bias;
  Matrix<T> proj_weight, proj_bias;
  Matrix<T> mlp_norm_weight, mlp_norm_bias;
  Matrix<T> fc1_weight, fc1_bias;
  Matrix<T> fc2_weight, fc2_bias;
};

// Those that a configuration lacks have no elements. `output_weight` is absent when tied.
template <class T>
struct Parameters {
  Matrix<T> word_embeddings;
  Matrix<T> position_embeddings;
  std::vector<LayerParameters<T>> layers;
  Matrix<T> final_norm_weight, final_norm_bias;
  Matrix<T> output_weight;

  bool tied() const { return output_weight.size() == 0; }
  // The logits' weight: the word embeddings' own when tied.
  const Matrix<T>& logits_weight() const { return tied() ? word_embeddings : output_weight; }
  Matrix<T>& logits_weight() { return tied() ? word_embeddings : output_weight; }
};

// Name and matrix of every parameter that some configuration has, in the order of docs/sites.md.
template <class T>
std::vector<std::pair<std::string, Matrix<T>*>> ParameterSlots(Parameters<T>& parameters) {
  std::vector<std::pair<std::string, Matrix<T>*>> slots = {
      {"embedding.word_embeddings.weight", &parameters.word_embeddings},
      {"embedding.position_embeddings.weight", &parameters.position_embeddings}};
  for (size_t n = 0; n < parameters.layers.size(); ++n) {
    LayerParameters<T>& layer = parameters.layers[n];
    const std::string prefix = "decoder.layers." + std::to_string(n) + ".";
    const auto add = [&](const std::string& module, Matrix<T>& weight, Matrix<T>& bias) {
      slots.emplace_back(prefix + module + ".weight", &weight);
      slots.emplace_back(prefix + module + ".bias", &bias);
    };
    add("input_layernorm", layer.input_norm_weight, layer.input_norm_bias);
    add("self_attention.linear_qkv", layer.qkv_weight, layer.qkv_bias);
    add("self_attention.linear_proj", layer.proj_weight, layer.proj_bias);
    add("pre_mlp_layernorm", layer.mlp_norm_weight, layer.mlp_norm_bias);
    add("mlp.linear_fc1", layer.fc1_weight, layer.fc1_bias);
    add("mlp.linear_fc2", layer.fc2_weight, layer.fc2_bias);
  }
  slots.emplace_back("decoder.final_layernorm.weight", &parameters.final_norm_weight);
  slots.emplace_back("decoder.final_layernorm.bias", &parameters.final_norm_bias);
  slots.emplace_back("output_layer.weight", &parameters.output_weight);
  return slots;
}

// The matrices that the configuration has, one for each of ParameterSpecs and in its order.
template <class T>
std::vector<Matrix<T>*> ParameterMatrices(const std::vector<ParameterSpec>& specs,
                                          Parameters<T>& parameters) {
  std::vector<Matrix<T>*> matrices;
  for (const auto& [name, matrix] : ParameterSlots(parameters)) {
    if (matrices.size() < specs.size() && name == specs[matrices.size()].name) {
      matrices.push_back(matrix);
    }
  }
  PL_CHECK(matrices.size() == specs.size());
  return matrices;
}

template <class T>
Parameters<T> ZeroParameters(const TransformerConfig& config) {
  Parameters<T> parameters;
  parameters.layers.resize(static_cast<size_t>(config.num_layers));
  const std::vector<ParameterSpec> specs = ParameterSpecs(config);
  const std::vector<Matrix<T>*> matrices = ParameterMatrices(specs, parameters);
  for (size_t i = 0; i < specs.size(); ++i) {
    const Shape& shape = specs[i].shape;
    matrices[i]->setZero(shape.size() == 2 ? shape[0] : 1, shape.back());
  }
  return parameters;
}

template <Storable T>
Parameters<T> LoadParameters(const TransformerConfig& config, const ParameterSource& source) {
  Parameters<T> parameters = ZeroParameters<T>(config);
  const std::vector<ParameterSpec> specs = ParameterSpecs(config);
  const std::vector<Matrix<T>*> matrices = ParameterMatrices(specs, parameters);
  for (size_t i = 0; i < specs.size(); ++i) {
    Tensor values = Tensor::Empty(Context{}, kDTypeOf<T>, specs[i].shape);
    source.FillWhole(specs[i].name, values);
    *matrices[i] = ToMatrix<T>(values);
  }
  return parameters;
}

}  // namespace plumbline

#endif  // PLUMBLINE_ORACLE_PARAMETERS_H_
