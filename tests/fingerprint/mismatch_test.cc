#include "fingerprint/mismatch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/fingerprint/fingerprint_testing.h"

namespace plumbline {
namespace {

using fingerprint_testing::AllReduceOf;
using testing::ElementsAre;
using testing::HasSubstr;

CollectiveRecord Message(std::string_view op, int rank, int peer, int tag, std::string tensor) {
  CollectiveRecord record = AllReduceOf(rank, "pp", {0, 1, 2}, 0, tensor);
  record.op = op;
  record.reduce_op = {};
  record.peer = peer;
  record.tag = tag;
  return record;
}

std::vector<Finding> Explain(const std::vector<CollectiveRecord>& all) {
  std::vector<const CollectiveRecord*> waiting;
  for (const CollectiveRecord& record : all) waiting.push_back(&record);
  return ExplainWaiting(waiting, all);
}

TEST(ExplainWaiting, EndsWithDifferentTags) {
  const std::vector<Finding> findings =
      Explain({Message("send", 0, 1, 4, "h"), Message("recv", 1, 0, 5, "h")});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_THAT(findings[0].ranks, ElementsAre(0, 1));
  EXPECT_THAT(findings[0].message, HasSubstr("(peer/tag differs)"));
}

TEST(ExplainWaiting, AReceiverThatWaitsForSomebodyElse) {
  EXPECT_EQ(Explain({Message("send", 0, 1, 4, "h"), Message("recv", 1, 2, 4, "h")}).size(), 1u);
  // Another tensor from elsewhere: nothing says that they belong together.
  EXPECT_EQ(Explain({Message("send", 0, 1, 4, "h"), Message("recv", 1, 2, 4, "g")}).size(), 0u);
}

TEST(ExplainWaiting, PlainWaitingIsNotExplained) {
  EXPECT_TRUE(Explain({}).empty());
  EXPECT_TRUE(Explain({Message("send", 0, 1, 4, "h"), Message("send", 1, 0, 4, "h")}).empty());
  EXPECT_TRUE(Explain({AllReduceOf(0, "tp", {0, 1}, 0, "a")}).empty());
}

TEST(OwedInstead, FindsTheGroupThatWaits) {
  const std::vector<CollectiveRecord> all = {AllReduceOf(0, "tp", {0, 1}, 0, "a"),
                                             AllReduceOf(1, "dp", {1, 3}, 0, "a")};
  EXPECT_EQ(OwedInstead(all[1], all), &all[0]);
  // dp{1,3} does not hold rank 0.
  EXPECT_EQ(OwedInstead(all[0], all), nullptr);
}

TEST(OwedInstead, AWitnessOnTheSameGroupMakesItRight) {
  std::vector<CollectiveRecord> all = {AllReduceOf(0, "tp", {0, 1}, 0, "a"),
                                       AllReduceOf(1, "dp", {1, 3}, 0, "a"),
                                       AllReduceOf(2, "dp", {0, 2}, 0, "a")};
  EXPECT_EQ(OwedInstead(all[1], all), nullptr);
  // One that has arrived owes nothing.
  all[2] = AllReduceOf(1, "tp", {0, 1}, 0, "a");
  EXPECT_EQ(OwedInstead(all[1], all), nullptr);
}

TEST(StrangerFinding, NamesTheGroup) {
  const Finding finding = StrangerFinding(AllReduceOf(5, "tp", {0, 1}, -1, "a"));
  EXPECT_THAT(finding.ranks, ElementsAre(5));
  EXPECT_THAT(finding.message, HasSubstr("rank 5 is not a member (membership differs)"));
}

}  // namespace
}  // namespace plumbline
