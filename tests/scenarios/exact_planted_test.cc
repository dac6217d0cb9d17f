// The planted mistakes over a prime field: found at the same place, with exact formulas; but for
// one that is no mistake there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "scenarios/verify.h"
#include "tests/scenarios/planted_rows.h"

namespace plumbline {
namespace {

using ::testing::HasSubstr;

// What is said otherwise than in f64.
struct Otherwise {
  FindingClass kind = FindingClass::kValueMismatch;
  std::string formula;
  bool unseen = false;
};

const std::map<std::string, Otherwise>& Differences() {
  static const std::map<std::string, Otherwise> differences = {
      // One bit is one element that is not equal, however low.
      {"LowBitFlippedInOnePayload",
       {FindingClass::kValueMismatch, "one element differs, in bit 0"}},
      // A field has no NaN.
      {"NanInOnePayload", {FindingClass::kValueMismatch, ""}},
      {"ConstantAddedOnOneRank", {FindingClass::kValueMismatch, "actual = reference +1/4"}},
      // Where all terms but one are 0 the largest residue is their sum.
      {"MaximumInPlaceOfSum", {FindingClass::kValueMismatch, "", true}},
      // The square root of a quarter is no half.
      {"NormReducedOnTpRank0Only",
       {FindingClass::kValueMismatch, "of squares: actual = 1/4 * reference"}},
  };
  return differences;
}

class ExactPlantedTest : public ::testing::TestWithParam<PlantedRow> {};

TEST_P(ExactPlantedTest, IsFoundAndPlaced) {
  const PlantedRow& row = GetParam();
  const auto difference = Differences().find(row.name);
  const bool otherwise = difference != Differences().end();
  Scenario scenario = MakeScenario(NamedModels()[row.model], row.layout);
  scenario.config.dtype = DType::kM61;
  row.plant(scenario);
  const Verdict verdict = VerifyText(scenario);
  if (otherwise && difference->second.unseen) {
    EXPECT_TRUE(verdict.pass) << Describe(verdict);
    return;
  }
  EXPECT_FALSE(verdict.pass);
  ASSERT_FALSE(verdict.findings.empty()) << Describe(verdict);
  const Finding& found = verdict.findings.front();
  EXPECT_EQ(found.kind, otherwise ? difference->second.kind : row.kind) << Describe(verdict);
  EXPECT_EQ(found.ranks, row.ranks) << Describe(verdict);
  EXPECT_EQ(ToString(found.site), row.site) << Describe(verdict);
  EXPECT_EQ(found.group, row.group) << Describe(verdict);
  const std::string formula = otherwise ? difference->second.formula : row.formula;
  if (formula.empty()) {
    EXPECT_EQ(found.formula, "") << Describe(verdict);
  } else {
    EXPECT_THAT(found.formula, HasSubstr(formula)) << Describe(verdict);
    EXPECT_EQ(found.residual, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ExactPlantedTest, ::testing::ValuesIn(AllPlantedRows()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace plumbline
