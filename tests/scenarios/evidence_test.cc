#include "scenarios/evidence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/scenarios/evidence_testing.h"

namespace plumbline {
namespace {

using ::testing::ElementsAre;

std::vector<AxisPlacement> ByRows() { return {Sharded("tp", {ShardStep::PaddedBlock(0)})}; }

TEST(EvidenceTest, StackTakesTheWrongRanksInOrderAndPaddingAsZero) {
  Evidence evidence = MakeEvidence({3}, ByRows());
  HoldOnRank(evidence, 1, {7, 9});
  HoldOnRank(evidence, 4, {5, 6});
  EXPECT_THAT(evidence.WrongRanks(), ElementsAre(1, 4));
  EXPECT_THAT(StackActual(evidence), ElementsAre(7, 0, 5, 6)) << "rank 1's second row is padding";
  EXPECT_THAT(StackReference(evidence),
              ElementsAre(evidence.reference[2], 0, evidence.reference[0], evidence.reference[1]));
}

TEST(EvidenceTest, StackGivesUpWhenARankHasNoValues) {
  Evidence evidence = MakeEvidence({2}, {});
  Hold(evidence, [](const RankPiece&) { return Values{5, 5}; });
  EXPECT_FALSE(Stack(evidence, [](const RankPiece& piece) {
    return piece.rank == 3 ? std::nullopt : std::optional<Values>(piece.values);
  }));
  EXPECT_FALSE(Stack(evidence, [](const RankPiece&) { return Values{1}; })) << "another size";
}

TEST(EvidenceTest, ResidualIsRelativeToTheScaleAndNanIsInfinite) {
  Evidence evidence = MakeEvidence({2}, {});
  evidence.scale = 4;
  EXPECT_EQ(ResidualOf(evidence, {1, 2}, {1, 1}), 0.25);
  EXPECT_EQ(ResidualOf(evidence, {1, 2}, {1, 2}), 0);
  EXPECT_TRUE(
      std::isinf(ResidualOf(evidence, {1, std::numeric_limits<double>::quiet_NaN()}, {1, 2})));
}

TEST(EvidenceTest, ExplanationMustBeFarBelowTheDeviationAndNearTheBound) {
  Evidence evidence = MakeEvidence({2}, {});
  evidence.bound = 1e-11;
  evidence.deviation = 1;
  EXPECT_TRUE(Explains(evidence, 0.9e-9));
  EXPECT_FALSE(Explains(evidence, 1.1e-9));
  evidence.deviation = 1e-10;
  EXPECT_TRUE(Explains(evidence, 0.9e-13));
  EXPECT_FALSE(Explains(evidence, 1.1e-13));
  EXPECT_FALSE(Explains(evidence, std::numeric_limits<double>::quiet_NaN()));
}

// Nothing fits better than to within the noise, and what the noise hides needs no formula.
TEST(EvidenceTest, LowPrecisionExplanationMayLeaveTheNoise) {
  Evidence evidence = MakeEvidence({2}, {});
  evidence.bound = evidence.noise = 0.02;
  evidence.deviation = 1;
  EXPECT_TRUE(Explains(evidence, 0.019));
  EXPECT_FALSE(Explains(evidence, 0.021));
  evidence.deviation = 0.04;
  EXPECT_TRUE(Explains(evidence, 0.009));
  EXPECT_FALSE(Explains(evidence, 0.011));
}

TEST(EvidenceTest, FactorIsLeastSquares) {
  EXPECT_DOUBLE_EQ(FactorBetween({2, 4}, {1, 2}).real(), 2);
  EXPECT_DOUBLE_EQ(FactorBetween({1, 0}, {1, 1}).real(), 0.5);
  EXPECT_EQ(FactorBetween({1, 2}, {0, 0}), 0);
}

TEST(EvidenceTest, NumbersAreRecognisedNearThemAlone) {
  Evidence evidence = MakeEvidence({2}, {});
  Hold(evidence, [](const RankPiece&) { return Values{5, 5}; });
  ASSERT_TRUE(Recognise(evidence, 3.001));
  EXPECT_EQ(Recognise(evidence, 3.001)->value, 3);
  EXPECT_EQ(Recognise(evidence, 3.001)->name, "dp");
  EXPECT_FALSE(Recognise(evidence, 3.1));
  EXPECT_FALSE(Recognise(evidence, std::numeric_limits<double>::quiet_NaN()));
}

TEST(EvidenceTest, AnAxisIsNamedOnlyWhenAllItsRanksAreWrong) {
  Evidence evidence = MakeEvidence({2}, {});
  for (const int rank : {0, 1}) HoldOnRank(evidence, rank, {5, 5});
  EXPECT_TRUE(WholeGroupsAreWrong(evidence, "tp"));
  EXPECT_FALSE(WholeGroupsAreWrong(evidence, "dp"));
  EXPECT_EQ(Recognise(evidence, 2)->name, "tp");
  EXPECT_EQ(Recognise(evidence, 3)->name, "");
}

// tp 2, dp 3 and as many microbatches.
TEST(EvidenceTest, ANumberHasAllTheNamesThatMayBeMeant) {
  Evidence evidence = MakeEvidence({2}, {});
  evidence.numbers.push_back({3, "num_microbatches", ""});
  evidence.numbers.push_back({2, "dp - 1", "dp", true});
  evidence.numbers.push_back({-2, "1 - dp", "dp", true});
  Hold(evidence, [](const RankPiece&) { return Values{5, 5}; });
  EXPECT_EQ(ToString(*Recognise(evidence, 3)), "3 (dp, or num_microbatches)");
  EXPECT_EQ(ToString(*Recognise(evidence, 2)), "2 (tp)") << "dp - 1 is no factor";
  EXPECT_EQ(ToString(*Recognise(evidence, 2, NumberUse::kAdded)), "2 (dp - 1, or tp)");
  EXPECT_EQ(SignedFactor(*Recognise(evidence, -2, NumberUse::kAdded)), "- 2 (dp - 1) * ");
  HoldOnRank(evidence, 0, Pick(evidence.reference, {0, 1}));
  EXPECT_EQ(ToString(*Recognise(evidence, 3)), "3 (num_microbatches)")
      << "what goes wrong over dp goes wrong for all its ranks";
}

TEST(EvidenceTest, NumbersReadWell) {
  EXPECT_EQ(ToString(NamedNumber{2, "tp", "tp"}), "2 (tp)");
  EXPECT_EQ(ToString(NamedNumber{1.0 / 3, "1/dp", "dp"}), "1/3 (1/dp)");
  EXPECT_EQ(ToString(NamedNumber{-0.25, "", ""}), "-1/4");
  EXPECT_EQ(ToString(NamedNumber{0.7, "", ""}), "0.7");
  EXPECT_EQ(SignedFactor(NamedNumber{-1.0 / 3, "-1/dp", "dp"}), "- 1/3 (1/dp) * ");
  EXPECT_EQ(SignedFactor(NamedNumber{1, "", ""}), "+ ");
  EXPECT_EQ(SignedFactor(NamedNumber{-2, "1 - dp", "dp"}), "- 2 (dp - 1) * ");
  EXPECT_EQ(ToString(NamedNumber{2, "tp", "tp", false, {"dp", "ranks"}}), "2 (tp, dp, or ranks)");
}

TEST(EvidenceTest, AxesComeFromTheSmallest) {
  EXPECT_THAT(AxesWithRanks(TestMesh()), ElementsAre("tp", "dp", "tp-dp"));
}

}  // namespace
}  // namespace plumbline
