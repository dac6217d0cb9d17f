#include "oracle/step.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/oracle/fixtures.h"

namespace plumbline {
namespace {

class StepTest : public testing::TestWithParam<ModelCase> {
 protected:
  StepTest()
      : model_(GetParam().model),
        data_(MakeStepData(model_, GetParam().train,
                           TextBatches(model_, GetParam().train, RandomText(2)), 1)),
        parameters_(LoadParameters<double>(model_, SeededParameters(model_, 8))),
        gpt_(model_) {}

  double Loss() { return RunStep<double>(gpt_, data_, parameters_, nullptr, nothing_); }

  TransformerConfig model_;
  StepData data_;
  Parameters<double> parameters_;
  Gpt<double> gpt_;
  Recorder<double> nothing_{nullptr};
};

// A check on the check: the gradient against central differences along a direction of all
// parameters. Truncation h^2 and rounding 1e-16/h are both near 1e-10.
TEST_P(StepTest, GradientAgreesWithFiniteDifferences) {
  Parameters<double> gradients = ZeroParameters<double>(model_);
  const double loss = RunStep(gpt_, data_, parameters_, &gradients, nothing_);
  EXPECT_EQ(loss, Loss());
  const std::vector<ParameterSpec> specs = ParameterSpecs(model_);
  const auto p = ParameterMatrices(specs, parameters_);
  const auto g = ParameterMatrices(specs, gradients);
  double slope = 0;
  double squares = 0;
  const auto move = [&](double by) {
    for (size_t i = 0; i < specs.size(); ++i) {
      const RandomStream stream = DataStream(5, specs[i].name);
      for (Eigen::Index e = 0; e < p[i]->size(); ++e) {
        p[i]->data()[e] += by * stream.Normal(static_cast<uint64_t>(e));
      }
    }
  };
  for (size_t i = 0; i < specs.size(); ++i) {
    const RandomStream stream = DataStream(5, specs[i].name);
    for (Eigen::Index e = 0; e < p[i]->size(); ++e) {
      slope += g[i]->data()[e] * stream.Normal(static_cast<uint64_t>(e));
    }
    squares += g[i]->squaredNorm();
  }
  constexpr double kStep = 1e-5;
  move(kStep);
  const double above = Loss();
  move(-2 * kStep);
  const double below = Loss();
  EXPECT_NEAR((above - below) / (2 * kStep), slope, 1e-6 * std::sqrt(squares));
  EXPECT_GT(std::sqrt(squares), 1e-2);
}

TEST_P(StepTest, GradientsOfMicrobatchesAddUp) {
  Parameters<double> together = ZeroParameters<double>(model_);
  RunStep(gpt_, data_, parameters_, &together, nothing_);
  Parameters<double> apart = ZeroParameters<double>(model_);
  for (const Microbatch& microbatch : data_.microbatches) {
    gpt_.Forward(parameters_, microbatch, nothing_);
    gpt_.Backward(TokenLossGradient<double>(data_.normalization, microbatch.counted), parameters_,
                  microbatch, apart, nothing_);
  }
  const std::vector<ParameterSpec> specs = ParameterSpecs(model_);
  const auto a = ParameterMatrices(specs, together);
  const auto b = ParameterMatrices(specs, apart);
  for (size_t i = 0; i < specs.size(); ++i) EXPECT_EQ(*a[i], *b[i]) << specs[i].name;
}

TEST_P(StepTest, CountsTheLabelsOfTheWholeStep) {
  int64_t labels = 0;
  for (const Microbatch& microbatch : data_.microbatches) {
    for (bool counted : microbatch.counted) labels += counted ? 1 : 0;
  }
  EXPECT_EQ(data_.normalization.step_labels, labels);
  EXPECT_EQ(data_.microbatches.size(), 3u);
}

INSTANTIATE_TEST_SUITE_P(Cases, StepTest, testing::Values(Gpt2Case(), LlamaCase()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace plumbline
