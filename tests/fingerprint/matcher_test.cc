#include "fingerprint/matcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/fingerprint/fingerprint_testing.h"

namespace plumbline {
namespace {

using fingerprint_testing::AllReduceOf;
using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<int> kFour = {0, 1, 2, 3};

// Keeps the slots that a runtime would keep.
class Feed {
 public:
  int64_t Arrive(CollectiveRecord record) {
    MatchSlot& slot = slots_[{record.group_hash, record.sequence}];
    const int64_t index = matcher.Add(std::move(record));
    matcher.Arrive(slot, index);
    return index;
  }
  int64_t Arrive(int rank, const std::vector<int>& members, int64_t sequence, std::string tensor,
                 std::string group = "dp") {
    return Arrive(AllReduceOf(rank, group, members, sequence, tensor));
  }
  void Complete(int64_t index, uint64_t checksum) {
    const CollectiveRecord& record = matcher.record(index);
    matcher.Complete(&slots_[{record.group_hash, record.sequence}], index, {checksum, 0}, 99);
  }
  // The only finding so far.
  Finding Only() {
    const std::vector<Finding> findings = matcher.TakeFindings();
    EXPECT_EQ(findings.size(), 1u);
    return findings.empty() ? Finding() : findings[0];
  }

  Matcher matcher;

 private:
  std::map<std::pair<uint64_t, int64_t>, MatchSlot> slots_;
};

TEST(Matcher, EqualCallsAreSilent) {
  Feed feed;
  std::vector<int64_t> calls;
  for (int rank : {2, 0, 3, 1}) calls.push_back(feed.Arrive(rank, kFour, 0, "a"));
  for (int64_t call : calls) feed.Complete(call, 7);
  feed.matcher.Settle();
  EXPECT_FALSE(feed.matcher.has_findings());
  EXPECT_FALSE(feed.matcher.has_disputes());
}

TEST(Matcher, WaitsForTheMajorityAndNamesTheRest) {
  Feed feed;
  CollectiveRecord odd = AllReduceOf(2, "dp", kFour, 0, "a");
  odd.reduce_op = "avg";
  feed.Arrive(odd);
  feed.Arrive(0, kFour, 0, "a");
  EXPECT_TRUE(feed.matcher.has_disputes());
  EXPECT_FALSE(feed.matcher.has_findings());
  feed.Arrive(1, kFour, 0, "a");
  feed.Arrive(3, kFour, 0, "a");
  const Finding finding = feed.Only();
  EXPECT_THAT(finding.ranks, ElementsAre(2));
  EXPECT_EQ(finding.message,
            "rank 2 seq 0 dp{0,1,2,3}: all_reduce avg f64[8] step 1 forward a value; rank 0: "
            "all_reduce sum f64[8] step 1 forward a value (redop differs)");
  EXPECT_EQ(finding.actual, "all_reduce avg f64[8] step 1 forward a value");
  EXPECT_EQ(finding.reference, "all_reduce sum f64[8] step 1 forward a value");
}

TEST(Matcher, SettleReportsWithWhatIsThere) {
  Feed feed;
  CollectiveRecord odd = AllReduceOf(2, "dp", kFour, 0, "a");
  odd.dtype = DType::kF32;
  feed.Arrive(odd);
  feed.Arrive(0, kFour, 0, "a");
  feed.matcher.Settle();
  const Finding finding = feed.Only();
  EXPECT_THAT(finding.ranks, ElementsAre(0, 2));
  EXPECT_THAT(finding.message, HasSubstr("(dtype differs)"));
}

// Ranks 0, 1, 3 call `others`, rank 2 calls `mine`, in turn.
Finding Sequences(const std::vector<std::string>& others, const std::vector<std::string>& mine) {
  Feed feed;
  for (size_t k = 0; k < std::max(others.size(), mine.size()); ++k) {
    for (int rank = 0; rank < 4; ++rank) {
      const std::vector<std::string>& calls = rank == 2 ? mine : others;
      if (k < calls.size()) feed.Arrive(rank, kFour, static_cast<int64_t>(k), calls[k]);
    }
    if (feed.matcher.has_findings()) break;
  }
  feed.matcher.Settle();
  std::vector<Finding> findings = feed.matcher.TakeFindings();
  return findings.empty() ? Finding() : findings[0];
}

TEST(Matcher, TheNextCallTellsOrderFromMissing) {
  const Finding order = Sequences({"a", "b", "c"}, {"b", "a", "c"});
  EXPECT_THAT(order.message, HasSubstr("(order differs: rank 2 makes that call at seq 1)"));
  EXPECT_THAT(order.ranks, ElementsAre(2));
  EXPECT_EQ(order.site.tensor, "a");
  EXPECT_THAT(Sequences({"a", "b", "c"}, {"b", "c"}).message, HasSubstr("(missing"));
  EXPECT_THAT(Sequences({"a", "b"}, {"b"}).message, HasSubstr("(missing"));
  EXPECT_THAT(Sequences({"a", "b"}, {"x", "a", "b"}).message, HasSubstr("(missing"));
  EXPECT_THAT(Sequences({"a", "b"}, {"x", "b"}).message, HasSubstr("(logical id differs)"));
  EXPECT_THAT(Sequences({"a"}, {"x"}).message, HasSubstr("(logical id differs)"));
}

TEST(Matcher, ASiblingGroupBreaksATie) {
  Feed feed;
  for (int rank : {2, 3}) feed.Arrive(rank, {2, 3}, 0, "a", "tp");
  feed.Arrive(0, {0, 1}, 0, "x", "tp");
  feed.Arrive(1, {0, 1}, 0, "a", "tp");
  feed.matcher.Settle();
  EXPECT_THAT(feed.Only().ranks, ElementsAre(0));
}

TEST(Matcher, ATieWithoutWitnessNamesBoth) {
  Feed feed;
  feed.Arrive(0, {0, 1}, 0, "x", "tp");
  feed.Arrive(1, {0, 1}, 0, "a", "tp");
  feed.matcher.Settle();
  EXPECT_THAT(feed.Only().ranks, ElementsAre(0, 1));
}

TEST(Matcher, ACallOwedToAnotherGroupIsAMembershipMistake) {
  Feed feed;
  feed.Arrive(0, {0, 1}, 0, "a", "tp");
  feed.Arrive(1, {1, 3}, 0, "a", "dp");
  feed.Arrive(3, {1, 3}, 0, "w", "dp");
  const Finding finding = feed.Only();
  EXPECT_THAT(finding.ranks, ElementsAre(1));
  EXPECT_EQ(finding.group, "tp{0,1}");
  EXPECT_THAT(finding.message, HasSubstr("on tp{0,1} (membership differs)"));
}

TEST(Matcher, ReducingOneTensorOverTwoGroupsIsNoMembershipMistake) {
  // Rank 0 is ahead: it waits in tp for rank 1, whose dp reduction of the same tensor differs.
  Feed feed;
  feed.Arrive(0, {0, 1}, 0, "norm", "tp");
  feed.Arrive(1, {1, 3}, 0, "norm", "dp");
  CollectiveRecord other = AllReduceOf(3, "dp", {1, 3}, 0, "norm");
  other.reduce_op = "max";
  feed.Arrive(other);
  EXPECT_THAT(feed.Only().message, HasSubstr("(redop differs)"));
}

TEST(Matcher, OutputsThatShouldBeEqualAreCompared) {
  Feed feed;
  std::vector<int64_t> calls;
  for (int rank = 0; rank < 4; ++rank) calls.push_back(feed.Arrive(rank, kFour, 0, "a"));
  feed.Complete(calls[0], 5);
  for (int rank = 1; rank < 4; ++rank) feed.Complete(calls[rank], 7);
  const Finding finding = feed.Only();
  EXPECT_THAT(finding.ranks, ElementsAre(0));
  EXPECT_THAT(finding.message, HasSubstr("(value differs)"));
  EXPECT_EQ(feed.matcher.record(calls[2]).completion_time, 99);
}

TEST(Matcher, FindingsOfAGroupAreLimited) {
  Feed feed;
  for (int64_t k = 0; k < 3 * Matcher::kMaxFindingsPerGroup; ++k) {
    CollectiveRecord odd = AllReduceOf(0, "tp", {0, 1}, k, "a");
    odd.reduce_op = "max";
    feed.Arrive(odd);
    feed.Arrive(1, {0, 1}, k, "a", "tp");
  }
  EXPECT_EQ(feed.matcher.TakeFindings().size(), static_cast<size_t>(Matcher::kMaxFindingsPerGroup));
}

}  // namespace
}  // namespace plumbline
