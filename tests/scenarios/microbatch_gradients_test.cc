#include "scenarios/microbatch_gradients.h"

#include <gtest/gtest.h>

#include <limits>

#include "oracle/reference.h"
#include "tests/scenarios/scenario_testing.h"

namespace plumbline {
namespace {

class MicrobatchGradientsTest : public ::testing::TestWithParam<size_t> {
 protected:
  MicrobatchGradientsTest()
      : scenario_(MakeScenario(NamedModels()[GetParam()], {1, 2, false}, 2)),
        parameters_(scenario_.config.model, 1),
        batches_(scenario_.config.model, scenario_.config.train, {3, 1, 4, 1, 5, 9, 2, 6, 5}),
        trace_(scenario_.config.train) {
    RunReference(scenario_.config.model, scenario_.config.train, DType::kF64, parameters_, batches_,
                 trace_);
    trace_.Finish();
  }
  std::vector<Values> GradientsAt(int step) {
    site_.step = step;
    site_.phase = Phase::kFinalize;
    site_.quantity = Quantity::kMainGrad;
    site_.tensor = "decoder.layers.0.mlp.linear_fc1.weight";
    return MicrobatchGradients(scenario_.config, {parameters_, batches_}, site_, trace_);
  }

  Scenario scenario_;
  SeededParameters parameters_;
  TextBatches batches_;
  ReferenceTrace trace_;
  Site site_;
};

TEST_P(MicrobatchGradientsTest, TheyAddUpToTheReferencesGradient) {
  const bool dropout = scenario_.config.model.hidden_dropout > 0;
  const std::vector<Values> gradients = GradientsAt(dropout ? 1 : 2);
  ASSERT_EQ(gradients.size(), 4U);
  Values sum(gradients[0].size(), 0.0);
  for (const Values& gradient : gradients) sum = AddScaled(sum, 1, gradient);
  const ReferenceEntry* entry = trace_.Find(site_);
  ASSERT_NE(entry, nullptr);
  const std::vector<double> whole = entry->tensor.ToVector<double>();
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_NEAR(sum[i].real(), whole[i], 1e-13 * entry->max_abs);
  }
  EXPECT_NE(gradients[0], gradients[1]);
}

TEST_P(MicrobatchGradientsTest, DropoutOfALaterStepCannotBeRepeated) {
  const bool dropout = scenario_.config.model.hidden_dropout > 0;
  EXPECT_EQ(GradientsAt(2).empty(), dropout);
}

// A loss per microbatch with dropout, and a loss per token without.
INSTANTIATE_TEST_SUITE_P(All, MicrobatchGradientsTest, ::testing::Values(size_t{0}, size_t{1}),
                         [](const auto& info) { return NamedModels()[info.param].name; });

}  // namespace
}  // namespace plumbline
