// Mistakes in what every rank computes by itself, each with its clean twin.
#include "scenarios/planted_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "scenarios/planted.h"
#include "scenarios/verify.h"
#include "tests/scenarios/scenario_testing.h"

namespace plumbline {
namespace {

using ::testing::HasSubstr;

struct Mistake {
  std::string name;
  bool sequence_parallel = false;
  bool per_token = false;
  FindingClass kind = FindingClass::kValueMismatch;
  std::string site;        // of the first finding
  std::vector<int> ranks;  // of the first finding
  std::string says;        // in its message
};
void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.name; }

// tp 2 x dp 2: ranks 0 and 1 of data-parallel coordinate 0.
Scenario Make(const Mistake& mistake) {
  Scenario scenario = MakeScenario(NamedModels()[0], {2, 2, mistake.sequence_parallel});
  scenario.config.train.calculate_per_token_loss = mistake.per_token;
  return scenario;
}

std::vector<Mistake> Mistakes() {
  const std::vector<int> all = {0, 1, 2, 3};
  return {
      {"local-token-denominators", false, true, FindingClass::kValueMismatch,
       "step 1 finalize embedding.word_embeddings.weight main_grad", all, ""},
      {"dropout-masks-equal-over-sequence",
       true,
       false,
       FindingClass::kValueMismatch,
       "step 1 microbatch 0 forward embedding value",
       {1},
       ""},
      {"dropout-masks-differ-over-tp",
       false,
       false,
       FindingClass::kValueMismatch,
       "step 1 microbatch 0 forward embedding value",
       {1},
       ""},
      {"adam-eps-inside-the-root", false, false, FindingClass::kValueMismatch,
       "step 1 step embedding.word_embeddings.weight parameter", all, ""},
      {"weight-decay-on-norms-and-biases", false, false, FindingClass::kValueMismatch,
       "step 1 step decoder.layers.0.input_layernorm.weight parameter", all, "lr * weight_decay"},
  };
}

class PlantedStepTest : public ::testing::TestWithParam<Mistake> {};

TEST_P(PlantedStepTest, IsFoundAndItsCleanTwinIsSilent) {
  const Mistake& mistake = GetParam();
  const Verdict clean = VerifyText(Make(mistake));
  EXPECT_TRUE(clean.pass) << Describe(clean);
  Scenario scenario = Make(mistake);
  Plant(mistake.name, scenario);
  const Verdict verdict = VerifyText(scenario);
  ASSERT_FALSE(verdict.findings.empty()) << Describe(verdict);
  const Finding& found = verdict.findings.front();
  EXPECT_EQ(found.kind, mistake.kind) << Describe(verdict);
  EXPECT_EQ(ToString(found.site), mistake.site) << Describe(verdict);
  EXPECT_EQ(found.ranks, mistake.ranks) << Describe(verdict);
  EXPECT_THAT(found.message, HasSubstr(mistake.says)) << Describe(verdict);
}

INSTANTIATE_TEST_SUITE_P(All, PlantedStepTest, ::testing::ValuesIn(Mistakes()),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(PlantedStepMistakesTest, AllOfThemAreHere) {
  std::vector<std::string> planted;
  for (const Planted& mistake : PlantedStepMistakes()) planted.push_back(mistake.name);
  std::vector<std::string> tested;
  for (const Mistake& mistake : Mistakes()) tested.push_back(mistake.name);
  EXPECT_THAT(tested, ::testing::UnorderedElementsAreArray(planted));
}

}  // namespace
}  // namespace plumbline
