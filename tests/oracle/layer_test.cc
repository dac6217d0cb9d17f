#include "oracle/layer.h"

#include <gtest/gtest.h>

#include "tests/oracle/fixtures.h"
#include "tests/oracle/operator_check.h"

namespace plumbline {
namespace {

TEST(LayerTest, QkvRowsGoGroupByGroup) {
  TransformerConfig config;
  config.num_attention_heads = 4;
  config.num_query_groups = 2;
  config.kv_channels = 1;
  Matrix<double> fused(1, 8);
  fused << 0, 1, 100, 200, 2, 3, 101, 201;
  const Qkv<double> parts = internal::SplitQkv(config, fused);
  for (int head = 0; head < 4; ++head) EXPECT_EQ(parts.q(0, head), head);
  for (int group = 0; group < 2; ++group) {
    EXPECT_EQ(parts.k(0, group), 100 + group);
    EXPECT_EQ(parts.v(0, group), 200 + group);
  }
  EXPECT_EQ(internal::MergeQkv(config, parts), fused);
}

class LayerTest : public testing::TestWithParam<ModelCase> {};

// The input's gradient; the parameters' are checked through the model.
TEST_P(LayerTest, BackwardIsTheDerivativeOfForward) {
  const ModelCase& c = GetParam();
  const Microbatch microbatch = MakeMicrobatch(
      c.model, TextBatches(c.model, c.train, RandomText(1)).Get(Context{}, 1, 0), 3, 1);
  Parameters<double> parameters = LoadParameters<double>(c.model, SeededParameters(c.model, 4));
  const std::vector<double> frequencies = InverseFrequencies(c.model);

  const auto forward = [&]<class T>(const std::vector<Matrix<T>>& in) {
    Parameters<T> lifted = ZeroParameters<T>(c.model);
    const auto specs = ParameterSpecs(c.model);
    const auto from = ParameterMatrices(specs, parameters);
    const auto to = ParameterMatrices(specs, lifted);
    for (size_t i = 0; i < specs.size(); ++i) {
      for (Eigen::Index e = 0; e < from[i]->size(); ++e) to[i]->data()[e] = T(from[i]->data()[e]);
    }
    Recorder<T> nothing(nullptr);
    const auto rotary = MakeRotaryTable<T>(microbatch.positions, frequencies);
    LayerSaved<T> saved;
    return LayerForward<T>({c.model, microbatch, rotary, nothing, 0}, in[0], lifted.layers[0],
                           saved);
  };
  const auto backward = [&](const Matrix<double>& dy, const Matrices<double>& in) {
    Recorder<double> nothing(nullptr);
    const auto rotary = MakeRotaryTable<double>(microbatch.positions, frequencies);
    const LayerContext<double> context = {c.model, microbatch, rotary, nothing, 0};
    LayerSaved<double> saved;
    LayerForward(context, in[0], parameters.layers[0], saved);
    Parameters<double> gradients = ZeroParameters<double>(c.model);
    return Matrices<double>{
        LayerBackward(context, dy, parameters.layers[0], saved, gradients.layers[0])};
  };
  const Matrices<double> inputs = {
      RandomMatrix(6, microbatch.sequence * microbatch.batch, c.model.hidden_size)};
  EXPECT_LE(WorstJvpError(inputs, forward, backward), kJvpBound);
  // A residual's gradient that is not added is seen.
  const auto without_residual = [&](const Matrix<double>& dy, const Matrices<double>& in) {
    return Matrices<double>{backward(dy, in)[0] - dy};
  };
  EXPECT_GT(WorstJvpError(inputs, forward, without_residual), 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Cases, LayerTest, testing::ValuesIn(AllCases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace plumbline
