#include "scenarios/fit_norm.h"

#include <gtest/gtest.h>

#include "tests/scenarios/evidence_testing.h"

namespace plumbline {
namespace {

Number InField(int64_t n) { return Fraction(DType::kM61, n, 1); }

// A norm of which two parts of squares are known, over 2 x 3 ranks of which all hold `squares`.
class FitNormTest : public ::testing::Test {
 protected:
  std::optional<Formula> Fit(const Number& squares) {
    evidence_ = MakeEvidence({}, {});
    evidence_.reference = {SquareRoot(replicated_ + sharded_)};
    evidence_.scale = 1;
    evidence_.numbers = {{Fraction(DType::kM61, 1, 4), "", ""}};
    evidence_.reductions = reductions_;
    for (RankPiece& piece : evidence_.pieces) {
      piece.values = {SquareRoot(squares)};
      piece.wrong = true;
    }
    return FitNorm(evidence_, {{"the replicated", {replicated_}}, {"the sharded", {sharded_}}});
  }

  Evidence evidence_;
  std::vector<TermSet> reductions_;
  const Number replicated_ = InField(1234567891011);
  const Number sharded_ = InField(998877665544332211);
};

TEST_F(FitNormTest, PartsThatCountTwiceAreFound) {
  EXPECT_EQ(Fit(2.0 * replicated_ + sharded_)->text,
            "of squares: actual = reference + the replicated");
  EXPECT_EQ(Fit(4.0 * replicated_ + sharded_)->text,
            "of squares: actual = reference + 3 * the replicated");
}

TEST_F(FitNormTest, PartsThatAreLeftOutAreFound) {
  EXPECT_EQ(Fit(sharded_)->text, "of squares: actual = reference - the replicated");
}

TEST_F(FitNormTest, AScaledSumIsFound) {
  EXPECT_EQ(Fit((replicated_ + sharded_) / InField(4))->text,
            "of squares: actual = 1/4 * reference");
}

TEST_F(FitNormTest, ASumOverTheWrongGroupIsFound) {
  TermSet set;
  set.group_axes = "dp";
  // Ranks 0 and 1 are the first tp group, 0, 2 and 4 the first dp group.
  const std::vector<Number> terms = {replicated_, sharded_,       InField(31337),
                                     InField(5),  InField(27182), InField(8)};
  for (int rank = 0; rank < 6; ++rank) {
    set.terms.push_back({rank, {terms[static_cast<size_t>(rank)]}});
  }
  reductions_ = {set};
  const auto formula = Fit(replicated_ + 31337.0 + 27182.0);
  ASSERT_TRUE(formula);
  EXPECT_EQ(formula->text,
            "of squares: actual = sum over dp of the terms; reference = a sum over tp of them");
  EXPECT_EQ(formula->axes, "dp");
}

TEST_F(FitNormTest, AnythingElseIsNone) { EXPECT_FALSE(Fit(InField(424242424242))); }

TEST_F(FitNormTest, DoublesAreNotItsBusiness) {
  Evidence evidence = MakeEvidence({}, {});
  HoldOnRank(evidence, 0, {3.0});
  EXPECT_FALSE(FitNorm(evidence, {{"a", {1.0}}, {"b", {2.0}}}));
}

}  // namespace
}  // namespace plumbline
