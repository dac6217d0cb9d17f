// "No rank can run" is found at once, and explained.
#include "parallel/comm/deadlock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "parallel/comm/world.h"
#include "tests/parallel/comm/comm_testing.h"

namespace plumbline {
namespace {

using comm_testing::Filled;
using comm_testing::GroupOf;
using comm_testing::Options;
using comm_testing::Range;
using comm_testing::SiteOf;
using comm_testing::Texts;
using testing::ElementsAre;
using testing::HasSubstr;

WorldResult RunWorld(WorldOptions options, const std::function<void(Rank&)>& body) {
  World world(options);
  WorldResult result = world.Run(body);
  EXPECT_FALSE(result.completed);
  return result;
}

TEST(Deadlock, ASkippedCollectiveNamesTheRankThatHasEnded) {
  for (const bool fingerprint : {false, true}) {
    WorldOptions options = Options(4);
    options.fingerprint = fingerprint;
    int unwound = 0;
    const WorldResult result = RunWorld(options, [&](Rank& rank) {
      if (rank.global_rank() == 1) return;
      Tensor x = Filled(rank.context(), 2, 1);
      try {
        rank.comm().AllReduce(x, ReduceOp::kSum, Range("dp", 0, 4), SiteOf("weight"));
      } catch (...) {
        ++unwound;
        throw;
      }
    });
    ASSERT_EQ(result.findings.size(), 1u) << Texts(result.findings);
    const Finding& finding = result.findings[0];
    EXPECT_EQ(finding.kind, FindingClass::kDeadlock);
    EXPECT_THAT(finding.ranks, ElementsAre(1));
    EXPECT_EQ(finding.site, SiteOf("weight"));
    EXPECT_EQ(finding.group, "dp{0,1,2,3}");
    EXPECT_EQ(
        finding.message,
        "deadlock: 3 of 4 ranks are blocked, 1 have ended\n"
        "  rank 0,2-3 in all_reduce sum f64[2] step 1 forward weight value dp{0,1,2,3} seq 0: "
        "missing rank 1 (has ended)");
    EXPECT_EQ(unwound, 3);
  }
}

TEST(Deadlock, CrossedMessagesShowTheCycle) {
  const WorldResult result = RunWorld(Options(2), [&](Rank& rank) {
    const int peer = 1 - rank.global_rank();
    Tensor x = Filled(rank.context(), 2, 1);
    Tensor y = Filled(rank.context(), 2, 1);
    const Group pp = Range("pp", 0, 2);
    rank.comm().Send(x, peer, 3, pp, SiteOf("hidden"));
    rank.comm().Recv(y, peer, 3, pp, SiteOf("hidden"));
  });
  ASSERT_EQ(result.findings.size(), 1u) << Texts(result.findings);
  EXPECT_EQ(result.findings[0].kind, FindingClass::kDeadlock);
  EXPECT_THAT(result.findings[0].message,
              HasSubstr("rank 0 in send f64[2] to rank 1 tag 3 step 1 forward hidden value pp{0,1} "
                        "seq 0: missing rank 1 (blocked in send f64[2] to rank 0 tag 3"));
  EXPECT_THAT(result.findings[0].message,
              HasSubstr("cycle: rank 0 waits for rank 1 waits for rank 0"));
}

TEST(Deadlock, EagerMessagesOfTheSameProgramPass) {
  World world(Options(2));
  const WorldResult result = world.Run([&](Rank& rank) {
    const int peer = 1 - rank.global_rank();
    Tensor x = Filled(rank.context(), 2, 1);
    Tensor y = Filled(rank.context(), 2, 1);
    const Group pp = Range("pp", 0, 2);
    auto sent = rank.comm().SendAsync(x, peer, 3, pp, SiteOf("hidden"));
    rank.comm().Recv(y, peer, 3, pp, SiteOf("hidden"));
    sent->Wait();
  });
  EXPECT_TRUE(result.completed);
  EXPECT_TRUE(result.findings.empty()) << Texts(result.findings);
}

TEST(Deadlock, AChainLeadsToTheRankThatStartedIt) {
  // Rank 3 ends; rank 2 waits for it, rank 1 for rank 2, rank 0 for rank 1.
  const WorldResult result = RunWorld(Options(4), [&](Rank& rank) {
    const int me = rank.global_rank();
    if (me == 3) return;
    if (me > 0) rank.Yield();
    rank.comm().Barrier(GroupOf("pair", {me, me + 1}), SiteOf("b" + std::to_string(me)));
  });
  ASSERT_EQ(result.findings.size(), 1u) << Texts(result.findings);
  EXPECT_THAT(result.findings[0].ranks, ElementsAre(3));
  EXPECT_EQ(result.findings[0].site, SiteOf("b2"));
}

TEST(Deadlock, GroupsInAnotherOrderMakeACycle) {
  const WorldResult result = RunWorld(Options(3), [&](Rank& rank) {
    const int me = rank.global_rank();
    const Group mine = GroupOf("a", {me, (me + 1) % 3});
    rank.comm().Barrier(mine, SiteOf("x"));
  });
  ASSERT_FALSE(result.findings.empty());
  EXPECT_EQ(result.findings.back().kind, FindingClass::kDeadlock);
  EXPECT_THAT(result.findings.back().message,
              HasSubstr("cycle: rank 0 waits for rank 1 waits for rank 2 waits for rank 0"));
}

TEST(Deadlock, AReceiveWithoutASenderAndASelfMessage) {
  const WorldResult result = RunWorld(Options(2), [&](Rank& rank) {
    Tensor x = Filled(rank.context(), 2, 1);
    const Group pp = Range("pp", 0, 2);
    if (rank.global_rank() == 0) rank.comm().Recv(x, 1, 0, pp, SiteOf("hidden"));
    if (rank.global_rank() == 1) rank.comm().Send(x, 1, 0, pp, SiteOf("self"));
  });
  ASSERT_EQ(result.findings.size(), 1u) << Texts(result.findings);
  EXPECT_THAT(result.findings[0].message, HasSubstr("rank 0 in recv f64[2] from rank 1 tag 0"));
  EXPECT_THAT(result.findings[0].message, HasSubstr("rank 1 in send f64[2] to rank 1 tag 0"));
}

TEST(Deadlock, RanksThatOnlyPollAreStuckToo) {
  const WorldResult result = RunWorld(Options(3), [&](Rank& rank) {
    if (rank.global_rank() == 2) return;
    Tensor x = Filled(rank.context(), 2, 1);
    auto work = rank.comm().AllReduceAsync(x, ReduceOp::kSum, Range("dp", 0, 3), SiteOf("w"));
    if (rank.global_rank() == 1) work->Wait();
    while (!work->Done()) {
    }
  });
  ASSERT_EQ(result.findings.size(), 1u) << Texts(result.findings);
  EXPECT_EQ(result.findings[0].kind, FindingClass::kDeadlock);
  EXPECT_THAT(result.findings[0].ranks, ElementsAre(2));
}

TEST(Deadlock, CallsThatDontFitHangWithoutTheFingerprint) {
  WorldOptions options = Options(2);
  options.fingerprint = false;
  const WorldResult result = RunWorld(options, [&](Rank& rank) {
    Tensor x = Filled(rank.context(), 2 + rank.global_rank(), 1);
    rank.comm().AllReduce(x, ReduceOp::kSum, Range("dp", 0, 2), SiteOf("w"));
  });
  ASSERT_EQ(result.findings.size(), 1u) << Texts(result.findings);
  EXPECT_THAT(result.findings[0].message,
              HasSubstr("all have called, but the calls don't fit together"));
  EXPECT_THAT(result.findings[0].ranks, ElementsAre(0, 1));
}

TEST(Deadlock, AnExceptionInTheMeantimeIsNotTaken) {
  // The deadlock is first; what ranks throw while they unwind is a consequence.
  const WorldResult result = RunWorld(Options(2), [&](Rank& rank) {
    if (rank.global_rank() == 0) return;
    try {
      rank.comm().Barrier(Range("dp", 0, 2), SiteOf("w"));
    } catch (const std::exception&) {
      throw std::logic_error("a consequence");
    }
  });
  EXPECT_EQ(result.findings.size(), 1u);
}

TEST(RankList, ShortensRuns) {
  EXPECT_EQ(RankList({}), "");
  EXPECT_EQ(RankList({4}), "4");
  EXPECT_EQ(RankList({0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
}

}  // namespace
}  // namespace plumbline
