#include "scenarios/fit_scale.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "tests/scenarios/evidence_testing.h"

namespace plumbline {
namespace {

Values Right(const Evidence& evidence, const RankPiece& piece) {
  return Pick(evidence.reference, piece.index);
}

TEST(FitScaleTest, NamedMultipleIsFound) {
  Evidence evidence = MakeEvidence({4, 3}, {Sharded("tp", {ShardStep::Block(0)})});
  Hold(evidence, [&](const RankPiece& piece) { return Scaled(3, Right(evidence, piece)); });
  const auto formula = FitScale(evidence);
  ASSERT_TRUE(formula);
  EXPECT_EQ(formula->text, "actual = 3 (dp) * reference");
  EXPECT_EQ(formula->axes, "dp");
  EXPECT_LE(formula->residual, 1e-15);
}

TEST(FitScaleTest, ZeroIsFound) {
  Evidence evidence = MakeEvidence({5}, {});
  HoldOnRank(evidence, 2, Values(5, 0.0));
  EXPECT_EQ(FitScale(evidence)->text, "actual = 0");
}

TEST(FitScaleTest, NearlyAMultipleIsNone) {
  Evidence evidence = MakeEvidence({5}, {});
  Hold(evidence, [&](const RankPiece& piece) {
    Values values = Scaled(3, Right(evidence, piece));
    values[2] += 1e-6;
    return values;
  });
  EXPECT_FALSE(FitScale(evidence));
}

TEST(FitScaleTest, UnnamedMultipleIsNone) {
  Evidence evidence = MakeEvidence({5}, {});
  Hold(evidence, [&](const RankPiece& piece) { return Scaled(2.5, Right(evidence, piece)); });
  EXPECT_FALSE(FitScale(evidence));
}

TEST(FitScaleTest, PartOfATensorIsNamedWithItsSize) {
  Evidence evidence = MakeEvidence({6}, {});
  Values held = evidence.reference;
  held[1] = 0;
  held[4] = 0;
  HoldOnRank(evidence, 0, held);
  EXPECT_EQ(FitPart(evidence)->text, "actual = 0 in 2 of 6 elements");
  held = evidence.reference;
  held[1] *= 4;
  held[5] *= 4;
  HoldOnRank(evidence, 0, held);
  EXPECT_EQ(FitPart(evidence)->text, "actual = 4 * reference in 2 of 6 elements");
}

TEST(FitScaleTest, FlippedBitIsNamed) {
  for (const int bit : {63, 62, 55, 40}) {
    Evidence evidence = MakeEvidence({6}, {});
    Values held = evidence.reference;
    held[3] = std::bit_cast<double>(std::bit_cast<uint64_t>(held[3].real()) ^ (uint64_t{1} << bit));
    HoldOnRank(evidence, 5, held);
    const auto formula = FitPart(evidence);
    ASSERT_TRUE(formula) << bit;
    EXPECT_EQ(formula->text, "one element differs, in bit " + std::to_string(bit));
  }
}

TEST(FitScaleTest, OneOddElementIsNoFlippedBit) {
  Evidence evidence = MakeEvidence({6}, {});
  Values held = evidence.reference;
  held[3] += 0.3;
  HoldOnRank(evidence, 5, held);
  EXPECT_EQ(FitPart(evidence)->text, "one element differs");
}

TEST(FitScaleTest, OffsetIsFoundAndNamed) {
  Evidence evidence = MakeEvidence({6}, {});
  Hold(evidence, [&](const RankPiece& piece) {
    Values values = Right(evidence, piece);
    for (Number& value : values) value += std::log(2);
    return values;
  });
  EXPECT_EQ(FitOffset(evidence)->text, "actual = reference + log(tp)");
  Hold(evidence, [&](const RankPiece& piece) {
    Values values = Right(evidence, piece);
    for (Number& value : values) value += -0.125;
    return values;
  });
  EXPECT_EQ(FitOffset(evidence)->text, "actual = reference -0.125");
}

TEST(FitScaleTest, ScalarHasNoOffset) {
  Evidence evidence = MakeEvidence({}, {});
  Hold(evidence, [&](const RankPiece&) { return Values{evidence.reference[0] + 0.5}; });
  EXPECT_FALSE(FitOffset(evidence));
}

TEST(FitScaleTest, RoundingIsOnlySaidOfSmallDifferences) {
  Evidence evidence = MakeEvidence({3}, {});
  evidence.deviation = 5e-10;
  ASSERT_TRUE(FitRounding(evidence));
  evidence.deviation = 2e-8;
  EXPECT_FALSE(FitRounding(evidence));
}

}  // namespace
}  // namespace plumbline
