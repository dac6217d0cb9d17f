// Mistakes planted from outside, each with its clean twin, and what is said about them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenarios/verify.h"
#include "tests/scenarios/planted_rows.h"

namespace plumbline {
namespace {

using ::testing::HasSubstr;

class PlantedTest : public ::testing::TestWithParam<PlantedRow> {};

TEST_P(PlantedTest, IsFoundAndItsCleanTwinIsSilent) {
  const PlantedRow& row = GetParam();
  const NamedModel model = NamedModels()[row.model];
  const Verdict clean = VerifyText(MakeScenario(model, row.layout));
  EXPECT_TRUE(clean.pass) << Describe(clean);

  Scenario scenario = MakeScenario(model, row.layout);
  row.plant(scenario);
  const Verdict verdict = VerifyText(scenario);
  EXPECT_FALSE(verdict.pass);
  ASSERT_FALSE(verdict.findings.empty()) << Describe(verdict);
  const Finding& found = verdict.findings.front();
  EXPECT_EQ(found.kind, row.kind) << Describe(verdict);
  EXPECT_EQ(found.ranks, row.ranks) << Describe(verdict);
  EXPECT_EQ(ToString(found.site), row.site) << Describe(verdict);
  EXPECT_EQ(found.group, row.group) << Describe(verdict);
  if (row.formula.empty()) {
    EXPECT_EQ(found.formula, "") << Describe(verdict);
  } else {
    EXPECT_THAT(found.formula, HasSubstr(row.formula)) << Describe(verdict);
  }
  EXPECT_EQ(found.repeat, scenario.repeat);
}

INSTANTIATE_TEST_SUITE_P(All, PlantedTest, ::testing::ValuesIn(AllPlantedRows()),
                         [](const auto& info) { return info.param.name; });

// Found where it happens, in the very first tensors: before training.
TEST(PlantedInitTest, SameSeedForEveryShardIsFound) {
  const Scenario scenario = MakeScenario(NamedModels()[0], {2, 3, false});
  const SeededParameters seeded(scenario.config.model, scenario.config.train.seed);
  const SameSeedForEveryShard parameters(seeded);
  const TextBatches batches(scenario.config.model, scenario.config.train, {7, 5, 3, 2, 1, 11, 13});
  const Verdict clean = Verify(scenario, {seeded, batches});
  EXPECT_TRUE(clean.pass) << Describe(clean);
  const Verdict verdict = Verify(scenario, {parameters, batches});
  ASSERT_FALSE(verdict.findings.empty());
  const Finding& found = verdict.findings.front();
  EXPECT_EQ(found.kind, FindingClass::kValueMismatch);
  EXPECT_EQ(found.ranks, (std::vector<int>{1, 3, 5})) << Describe(verdict);
  EXPECT_EQ(ToString(found.site), "step 0 init embedding.word_embeddings.weight parameter");
  EXPECT_THAT(found.formula, HasSubstr("actual = the piece of tp 1 further"));
}

}  // namespace
}  // namespace plumbline
