#include "scenarios/fit_tensor.h"

#include <gtest/gtest.h>

#include "tests/scenarios/evidence_testing.h"

namespace plumbline {
namespace {

std::vector<AxisPlacement> ByRows() { return {Sharded("tp", {ShardStep::Block(0)})}; }

// All ranks hold their piece of `whole`.
void HoldWhole(Evidence& evidence, const Values& whole) {
  Hold(evidence, [&](const RankPiece& piece) { return Pick(whole, piece.index); });
}

TEST(FitTensorTest, StaleValueIsNamed) {
  Evidence evidence = MakeEvidence({4, 2}, ByRows());
  evidence.stale = {{"step 1", RandomValues(8, 4)}, {"step 2", RandomValues(8, 5)}};
  HoldWhole(evidence, evidence.stale[1].values);
  EXPECT_EQ(FitStale(evidence)->text, "actual = the reference's value of step 2");
  HoldWhole(evidence, RandomValues(8, 6));
  EXPECT_FALSE(FitStale(evidence));
}

TEST(FitTensorTest, PieceOfTheNeighbourIsFound) {
  Evidence evidence = MakeEvidence({4, 2}, ByRows());
  Hold(evidence, [&](const RankPiece& piece) {
    return Pick(evidence.reference, evidence.pieces[static_cast<size_t>(piece.rank ^ 1)].index);
  });
  const auto formula = FitShard(evidence);
  ASSERT_TRUE(formula);
  EXPECT_EQ(formula->text, "actual = the piece of tp 1 further (rank 0 holds rank 1's)");
  EXPECT_EQ(formula->axes, "tp");
}

TEST(FitTensorTest, BoundaryOffByOneIsFound) {
  Evidence evidence = MakeEvidence({16}, ByRows());
  Values shifted = evidence.reference;
  std::rotate(shifted.begin(), shifted.begin() + 1, shifted.end());
  HoldWhole(evidence, shifted);
  EXPECT_EQ(FitShift(evidence)->text, "actual = reference shifted by 1 elements");
}

TEST(FitTensorTest, AddedTensorIsFoundWithItsFactor) {
  Evidence evidence = MakeEvidence({4, 2}, ByRows());
  evidence.others = {{"x", RandomValues(8, 4)}, {"y", RandomValues(8, 5)}};
  HoldWhole(evidence, AddScaled(evidence.reference, 2, evidence.others[1].values));
  EXPECT_EQ(FitAdded(evidence)->text, "actual = reference + 2 (tp) * y");
  HoldWhole(evidence, AddScaled(evidence.reference, -1, evidence.others[0].values));
  EXPECT_EQ(FitAdded(evidence)->text, "actual = reference - x");
  HoldWhole(evidence, evidence.others[1].values);
  EXPECT_EQ(FitAdded(evidence)->text, "actual = y");
  HoldWhole(evidence, AddScaled(evidence.reference, 0.7, evidence.others[0].values));
  EXPECT_FALSE(FitAdded(evidence)) << "0.7 counts nothing";
}

TEST(FitTensorTest, PermutedBlocksAreFoundAtTheirLargestSize) {
  Evidence evidence = MakeEvidence({2, 6}, {});
  // Columns in blocks of two, in order 2, 0, 1.
  Values permuted;
  for (size_t row = 0; row < 2; ++row) {
    for (const size_t block : {2, 0, 1}) {
      for (size_t i = 0; i < 2; ++i)
        permuted.push_back(evidence.reference[row * 6 + 2 * block + i]);
    }
  }
  HoldWhole(evidence, permuted);
  EXPECT_EQ(FitPermutation(evidence)->text,
            "actual = reference with blocks of 2 along axis 1 in order 2,0,1");
}

TEST(FitTensorTest, PermutationIsSeenAcrossShards) {
  Evidence evidence = MakeEvidence({4, 3}, ByRows());
  Values swapped(evidence.reference.begin() + 6, evidence.reference.end());
  swapped.insert(swapped.end(), evidence.reference.begin(), evidence.reference.begin() + 6);
  HoldWhole(evidence, swapped);
  EXPECT_EQ(FitPermutation(evidence)->text,
            "actual = reference with blocks of 2 along axis 0 in order 1,0");
}

TEST(FitTensorTest, TransposeIsFound) {
  Evidence evidence = MakeEvidence({3, 3}, {});
  Values transposed(9);
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = 0; j < 3; ++j) transposed[i * 3 + j] = evidence.reference[j * 3 + i];
  }
  HoldWhole(evidence, transposed);
  EXPECT_EQ(FitPermutation(evidence)->text, "actual = transpose of reference");
}

TEST(FitTensorTest, SmallDifferencesAreNoPermutation) {
  Evidence evidence = MakeEvidence({4, 2}, ByRows());
  Values nearly = evidence.reference;
  nearly[3] += 5e-11;
  HoldWhole(evidence, nearly);
  EXPECT_FALSE(FitPermutation(evidence));
}

TEST(FitTensorTest, NoiseFitsNothing) {
  Evidence evidence = MakeEvidence({4, 2}, ByRows());
  evidence.others = {{"x", RandomValues(8, 4)}};
  evidence.stale = {{"step 1", RandomValues(8, 5)}};
  HoldWhole(evidence, RandomValues(8, 6));
  for (const auto& fit : {FitStale, FitShard, FitAdded, FitPermutation, FitShift}) {
    EXPECT_FALSE(fit(evidence));
  }
}

}  // namespace
}  // namespace plumbline
