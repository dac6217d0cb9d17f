#include "scenarios/piece_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plumbline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Tensor F64(const std::vector<double>& values) {
  return Tensor::FromVector(Context{}, {static_cast<int64_t>(values.size())}, values);
}

TEST(PieceSetTest, ReportsOfEqualBytesAreEqual) {
  LayoutPlan plan;
  const PieceReport a = ReportOf(0, plan, F64({1, 2}));
  const PieceReport b = ReportOf(1, plan, F64({1, 2}));
  const PieceReport c = ReportOf(2, plan, F64({1, 2.0000000000000004}));
  const PieceReport d = ReportOf(3, plan, F64({-0.0, 0.0}));
  const PieceReport e = ReportOf(3, plan, F64({0.0, 0.0}));
  EXPECT_EQ(a.hash_low, b.hash_low);
  EXPECT_NE(a.hash_low, c.hash_low);
  EXPECT_NE(d.hash_low, e.hash_low);
}

TEST(PieceSetTest, MinorityOfReplicasIsNamed) {
  std::vector<PieceReport> reports = {{3, 0, 7, 7}, {1, 0, 5, 5}, {2, 0, 7, 7}, {0, 1, 9, 9}};
  const ReplicaCheck check = CheckReplicas(reports);
  EXPECT_TRUE(check.any);
  EXPECT_THAT(check.unequal, ElementsAre(1));
}

TEST(PieceSetTest, TieIsDecidedByTheFirstRank) {
  std::vector<PieceReport> reports = {{3, 0, 1, 1}, {0, 0, 2, 2}, {1, 0, 1, 1}, {2, 0, 2, 2}};
  EXPECT_THAT(CheckReplicas(reports).unequal, ElementsAre(1, 3));
}

TEST(PieceSetTest, DifferentPiecesAreNoReplicas) {
  std::vector<PieceReport> reports = {{0, 0, 1, 1}, {1, 1, 2, 2}};
  const ReplicaCheck check = CheckReplicas(reports);
  EXPECT_FALSE(check.any);
  EXPECT_THAT(check.unequal, IsEmpty());
}

TEST(PieceSetTest, EitherHalfOfTheHashCounts) {
  std::vector<PieceReport> reports = {{0, 0, 1, 1}, {1, 0, 1, 2}};
  EXPECT_THAT(CheckReplicas(reports).unequal, ElementsAre(1));
}

TEST(PieceSetTest, OverlayComparesSharedElementsBitForBit) {
  Overlay overlay(4, sizeof(double));
  overlay.Add(0, {{0, 0, 3}}, F64({1, 2, 3}));
  EXPECT_FALSE(overlay.shared());
  overlay.Add(1, {{0, 2, 2}}, F64({3, 4}));
  EXPECT_TRUE(overlay.shared());
  EXPECT_EQ(overlay.unequal_rank(), -1);
  overlay.Add(2, {{0, 3, 1}}, F64({4.000000000000001}));
  EXPECT_EQ(overlay.unequal_rank(), 2);
  EXPECT_EQ(overlay.unequal_to(), 1);
  EXPECT_EQ(overlay.index(), 3);
}

TEST(PieceSetTest, CoverageNamesTheFirstMissingElement) {
  LayoutPlans plans;
  ObservedLayout left;
  left.piece = {{2}, {0, 1}, false};
  ObservedLayout right;
  right.piece = {{2}, {3, 4}, false};
  Coverage coverage(plans);
  const std::vector<PieceReport> both = {{0, plans.Of(left).piece, 0, 0},
                                         {1, plans.Of(right).piece, 0, 0}};
  EXPECT_EQ(coverage.FirstMissing(both, 5), 2);
  EXPECT_EQ(coverage.FirstMissing(both, 5), 2);
  EXPECT_EQ(coverage.FirstMissing({both[0]}, 2), -1);
  EXPECT_EQ(coverage.FirstMissing({both[0], both[0]}, 3), 2);
}

}  // namespace
}  // namespace plumbline
