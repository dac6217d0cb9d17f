#include "scenarios/layout_plan.h"

#include <gtest/gtest.h>

namespace plumbline {
namespace {

ObservedLayout LayoutOf(std::vector<int64_t> index, bool whole = false) {
  ObservedLayout layout;
  layout.tensor.name = "t";
  layout.piece.local_shape = {static_cast<int64_t>(index.size())};
  layout.piece.global_index = std::move(index);
  layout.piece.whole = whole;
  return layout;
}

TEST(LayoutPlanTest, RunsAreMaximalAndLeaveOutPadding) {
  const std::vector<IndexRun> runs = RunsOf({4, 5, 6, 0, 1, -1, -1, 9});
  ASSERT_EQ(runs.size(), 3U);
  EXPECT_EQ(runs[0].local, 0);
  EXPECT_EQ(runs[0].global, 4);
  EXPECT_EQ(runs[0].n, 3);
  EXPECT_EQ(runs[1].global, 0);
  EXPECT_EQ(runs[1].n, 2);
  EXPECT_EQ(runs[2].local, 7);
  EXPECT_EQ(runs[2].global, 9);
  EXPECT_EQ(runs[2].n, 1);
}

TEST(LayoutPlanTest, EmptyPieceHasNoRuns) { EXPECT_TRUE(RunsOf({}).empty()); }

TEST(LayoutPlanTest, CountsValuesAndTheLastIndex) {
  LayoutPlans plans;
  const ObservedLayout layout = LayoutOf({4, 5, -1, 7});
  const LayoutPlan& plan = plans.Of(layout);
  EXPECT_EQ(plan.elements, 4);
  EXPECT_EQ(plan.values, 3);
  EXPECT_EQ(plan.global_end, 8);
}

TEST(LayoutPlanTest, PiecesAreTheSameExactlyWhenTheirIndicesAre) {
  LayoutPlans plans;
  const ObservedLayout a = LayoutOf({0, 1, 2});
  const ObservedLayout whole = LayoutOf({0, 1, 2}, true);
  const ObservedLayout other_order = LayoutOf({0, 2, 1});
  const ObservedLayout padded = LayoutOf({0, 1, 2, -1});
  EXPECT_EQ(plans.Of(a).piece, plans.Of(whole).piece);
  EXPECT_NE(plans.Of(a).piece, plans.Of(other_order).piece);
  EXPECT_NE(plans.Of(a).piece, plans.Of(padded).piece);
  EXPECT_EQ(plans.OfPiece(plans.Of(other_order).piece).values, 3);
}

TEST(LayoutPlanTest, PlanIsMadeOncePerLayout) {
  LayoutPlans plans;
  const ObservedLayout layout = LayoutOf({0, 1});
  const LayoutPlan* first = &plans.Of(layout);
  EXPECT_EQ(&plans.Of(layout), first);
}

TEST(LayoutPlanTest, AnotherLayoutAtTheSameAddressGetsItsOwnPlan) {
  LayoutPlans plans;
  ObservedLayout layout = LayoutOf({0, 1});
  EXPECT_EQ(plans.Of(layout).values, 2);
  layout = LayoutOf({0, 1, 2, 3});
  EXPECT_EQ(plans.Of(layout).values, 4);
}

TEST(LayoutPlanTest, PartialAxesAreJoined) {
  LayoutPlans plans;
  ObservedLayout layout = LayoutOf({0, 1});
  layout.tensor.placements = {Partial("tp"), Partial("cp")};
  EXPECT_EQ(plans.Of(layout).partial_over, "tp-cp");
}

}  // namespace
}  // namespace plumbline
