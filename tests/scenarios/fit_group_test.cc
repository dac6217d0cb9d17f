#include "scenarios/fit_group.h"

#include <gtest/gtest.h>

#include "tests/scenarios/evidence_testing.h"

namespace plumbline {
namespace {

constexpr size_t kElements = 8;

// Terms of all ranks over dp whose mean is the reference (for sums: whose sum is), for a tensor
// that all ranks hold.
TermSet TermsOf(const Evidence& evidence, double weight) {
  TermSet set;
  set.group_axes = "dp";
  for (int rank = 0; rank < 6; ++rank) {
    set.terms.push_back({rank, RandomValues(kElements, 10 + static_cast<uint64_t>(rank))});
  }
  for (const int last : {4, 5}) {  // completes what its dp group adds up to
    Values& term = set.terms[static_cast<size_t>(last)].values;
    term = Scaled(1 / weight, evidence.reference);
    for (const int rank : {last - 4, last - 2}) {
      term = AddScaled(term, -1, set.terms[static_cast<size_t>(rank)].values);
    }
  }
  return set;
}

TEST(FitGroupTest, MissingReductionIsFoundFromWhatTheRanksHold) {
  Evidence evidence = MakeEvidence({kElements}, {});
  const Values part = RandomValues(kElements, 7);
  Hold(evidence, [&](const RankPiece& piece) {
    return piece.rank % 2 == 0 ? part : AddScaled(evidence.reference, -1, part);
  });
  const auto formula = FitGroupSum(evidence);
  ASSERT_TRUE(formula);
  EXPECT_EQ(formula->text, "sum over tp of actual = reference");
  EXPECT_EQ(formula->axes, "tp");
}

TEST(FitGroupTest, MissingAverageIsFound) {
  Evidence evidence = MakeEvidence({kElements}, {});
  const TermSet terms = TermsOf(evidence, 1.0 / 3);
  Hold(evidence,
       [&](const RankPiece& piece) { return terms.terms[static_cast<size_t>(piece.rank)].values; });
  EXPECT_EQ(FitGroupSum(evidence)->text, "mean over dp of actual = reference");
}

TEST(FitGroupTest, BiasOfEachRankIsToldFromTheMissingReduction) {
  Evidence evidence = MakeEvidence({kElements}, {});
  const Values part = RandomValues(kElements, 7);
  const Values bias = RandomValues(kElements, 8);
  evidence.others = {{"linear.bias", bias}};
  // Each rank added the bias that the reference has once.
  Hold(evidence, [&](const RankPiece& piece) {
    return piece.rank % 2 == 0 ? part : AddScaled(AddScaled(evidence.reference, 1, bias), -1, part);
  });
  EXPECT_EQ(FitGroupSum(evidence)->text, "sum over tp of actual = reference + linear.bias");
}

// Its sum with the ranks that are right is the reference and that tensor, but nothing is missing.
TEST(FitGroupTest, OneRankWithAnotherTensorIsNoMissingReduction) {
  Evidence evidence = MakeEvidence({kElements}, {});
  evidence.others = {{"y", RandomValues(kElements, 4)}};
  HoldOnRank(evidence, 0, evidence.others[0].values);
  EXPECT_FALSE(FitGroupSum(evidence));
}

TEST(FitGroupTest, DifferentPiecesAreNotSummed) {
  Evidence evidence = MakeEvidence({kElements}, {Sharded("tp", {ShardStep::Block(0)})});
  Hold(evidence, [&](const RankPiece& piece) { return RandomValues(piece.values.size(), 3); });
  EXPECT_FALSE(FitGroupSum(evidence));
}

TEST(FitGroupTest, OwnTermMissingTermAndDoubledTermAreFound) {
  Evidence evidence = MakeEvidence({kElements}, {});
  const TermSet terms = TermsOf(evidence, 1.0 / 3);
  evidence.reductions = {terms};
  Hold(evidence, [&](const RankPiece& piece) {
    return AddScaled(evidence.reference, -1.0 / 3,
                     terms.terms[static_cast<size_t>(2 + piece.rank % 2)].values);
  });
  EXPECT_EQ(FitTerms(evidence)->text,
            "actual = reference - 1/3 (1/dp) * the term of dp 1 (rank 3)");
  Hold(evidence, [&](const RankPiece& piece) {
    return AddScaled(evidence.reference, 1.0 / 3,
                     terms.terms[static_cast<size_t>(piece.rank % 2)].values);
  });
  EXPECT_EQ(FitTerms(evidence)->text,
            "actual = reference + 1/3 (1/dp) * the term of dp 0 (rank 1)");
  HoldOnRank(evidence, 0, terms.terms[0].values);
  Hold(evidence, [&](const RankPiece& piece) {
    return piece.rank == 0 ? terms.terms[0].values : evidence.reference;
  });
  EXPECT_EQ(FitTerms(evidence)->text, "actual = this rank's own term");
}

TEST(FitGroupTest, SumOverAnotherGroupIsFound) {
  Evidence evidence = MakeEvidence({kElements}, {});
  const TermSet terms = TermsOf(evidence, 1);
  evidence.reductions = {terms};
  Hold(evidence, [&](const RankPiece& piece) {
    const auto first = static_cast<size_t>(piece.rank - piece.rank % 2);
    return AddScaled(terms.terms[first].values, 1, terms.terms[first + 1].values);
  });
  const auto formula = FitTerms(evidence);
  ASSERT_TRUE(formula);
  EXPECT_EQ(formula->text, "actual = sum over tp of the terms; reference = a sum over dp of them");
  EXPECT_EQ(formula->axes, "tp");
}

TEST(FitGroupTest, WrongTermsSaySoByFittingNothing) {
  Evidence evidence = MakeEvidence({kElements}, {});
  TermSet terms = TermsOf(evidence, 1);
  for (RankTerm& term : terms.terms) {
    term.values = RandomValues(kElements, 50 + static_cast<uint64_t>(term.rank));
  }
  evidence.reductions = {terms};
  Hold(evidence, [&](const RankPiece& piece) {
    Values sum(kElements, 0.0);
    for (const int member : TestMesh().GroupOf("dp", piece.rank).members) {
      sum = AddScaled(sum, 1, terms.terms[static_cast<size_t>(member)].values);
    }
    return sum;
  });
  EXPECT_FALSE(FitTerms(evidence));
}

TEST(FitGroupTest, TermsOfAReduceScatterAreCutToThePiece) {
  Evidence evidence = MakeEvidence({kElements}, {Sharded("tp", {ShardStep::Block(0)})});
  TermSet set;
  set.group_axes = "tp";
  set.scattered = true;
  for (int rank = 0; rank < 6; ++rank) {
    set.terms.push_back({rank, RandomValues(kElements, 20 + static_cast<uint64_t>(rank))});
  }
  evidence.reductions = {set};
  // Rank 1's term counts twice, in all pieces.
  Hold(evidence, [&](const RankPiece& piece) {
    const Values right = Pick(evidence.reference, piece.index);
    return piece.rank > 1 ? right : AddScaled(right, 1, Pick(set.terms[1].values, piece.index));
  });
  EXPECT_EQ(FitTerms(evidence)->text, "actual = reference + the term of tp 1 (rank 1)");
}

TEST(FitGroupTest, MaximumIsFound) {
  Evidence evidence = MakeEvidence({kElements}, {});
  const TermSet terms = TermsOf(evidence, 1);
  evidence.reductions = {terms};
  Hold(evidence, [&](const RankPiece& piece) {
    Values largest(kElements, -1e300);
    for (const int member : TestMesh().GroupOf("dp", piece.rank).members) {
      const Values& term = terms.terms[static_cast<size_t>(member)].values;
      for (size_t i = 0; i < kElements; ++i) largest[i] = std::max(largest[i], term[i]);
    }
    return largest;
  });
  EXPECT_EQ(FitTerms(evidence)->text, "actual = maximum over dp of the terms");
}

}  // namespace
}  // namespace plumbline
