#include "scenarios/tally.h"

#include <gtest/gtest.h>

namespace plumbline {
namespace {

Site At(Phase phase, Quantity quantity, const std::string& tensor) {
  Site site;
  site.step = 1;
  site.phase = phase;
  site.quantity = quantity;
  site.tensor = tensor;
  return site;
}

TEST(TallyTest, NothingComparedGivesNoRows) { EXPECT_TRUE(Tally(1e-11).Quantities().empty()); }

TEST(TallyTest, RowsCountTensorsAndValuesAndKeepTheWorst) {
  Tally tally(1e-11);
  tally.Add(At(Phase::kForward, Quantity::kValue, "a"), 0, 10, 1e-16);
  tally.Add(At(Phase::kForward, Quantity::kValue, "b"), 1, 20, 3e-16);
  tally.Add(At(Phase::kForward, Quantity::kValue, "c"), 2, 30, 2e-16);
  const std::vector<ComparedQuantity> rows = tally.Quantities();
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].quantity, "forward value");
  EXPECT_EQ(rows[0].tensors, 3);
  EXPECT_EQ(rows[0].values, 60);
  EXPECT_EQ(rows[0].worst, 3e-16);
  EXPECT_EQ(rows[0].worst_site.tensor, "b");
  EXPECT_EQ(rows[0].bound, 1e-11);
}

// Where bounds differ the worst is what takes most of its own.
TEST(TallyTest, WorstIsByItsOwnBound) {
  Tally tally(1e-11);
  const auto site = [](const char* name) { return At(Phase::kForward, Quantity::kValue, name); };
  tally.Add(site("large"), 0, 10, Measured{0.08, 0.1, 0.02});
  tally.Add(site("small"), 1, 10, Measured{0.009, 0.01, 0.002});
  tally.Add(site("tiny"), 2, 10, Measured{0.0001, 0.01, 0.0025});
  const std::vector<ComparedQuantity> rows = tally.Quantities();
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].worst_site.tensor, "small");
  EXPECT_EQ(rows[0].worst, 0.009);
  EXPECT_EQ(rows[0].bound, 0.01);
  EXPECT_EQ(rows[0].floor, 0.002);
  EXPECT_EQ(rows[0].values, 30);
}

TEST(TallyTest, EquallyBadSitesAreNamedByTheirPlace) {
  Tally tally(1e-11);
  tally.Add(At(Phase::kForward, Quantity::kValue, "late"), 7, 1, 0);
  tally.Add(At(Phase::kForward, Quantity::kValue, "early"), 2, 1, 0);
  EXPECT_EQ(tally.Quantities()[0].worst_site.tensor, "early");
}

TEST(TallyTest, EachQuantityHasItsRow) {
  Tally tally(1e-11);
  tally.Add(At(Phase::kInit, Quantity::kParameter, "w"), 0, 1, 0);
  tally.Add(At(Phase::kBackward, Quantity::kGradient, "a"), 1, 1, 0);
  tally.Add(At(Phase::kFinalize, Quantity::kMainGrad, "w"), 2, 1, 0);
  tally.Add(At(Phase::kNorm, Quantity::kValue, "grad_norm"), 3, 1, 0);
  tally.Add(At(Phase::kStep, Quantity::kParameter, "w"), 4, 1, 0);
  tally.Add(At(Phase::kStep, Quantity::kExpAvg, "w"), 5, 1, 0);
  tally.Add(At(Phase::kStep, Quantity::kExpAvgSq, "w"), 6, 1, 0);
  tally.Add(At(Phase::kStep, Quantity::kCounter, "n"), 7, 1, 0);
  tally.AddReplicas(At(Phase::kStep, Quantity::kParameter, "w"), 4, 8, true);
  EXPECT_EQ(tally.Quantities().size(), 9U);
}

TEST(TallyTest, UnequalReplicasShow) {
  Tally tally(1e-11);
  tally.AddReplicas(At(Phase::kStep, Quantity::kParameter, "w"), 4, 8, true);
  tally.AddReplicas(At(Phase::kStep, Quantity::kParameter, "v"), 5, 8, false);
  EXPECT_EQ(tally.Quantities()[0].worst, 1);
  EXPECT_EQ(tally.Quantities()[0].bound, 0);
  EXPECT_EQ(tally.Quantities()[0].worst_site.tensor, "v");
}

}  // namespace
}  // namespace plumbline
