#include "parallel/comm/mutation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "parallel/comm/world.h"
#include "tests/parallel/comm/comm_testing.h"

namespace plumbline {
namespace {

using comm_testing::Filled;
using comm_testing::Options;
using comm_testing::Range;
using comm_testing::SiteOf;
using comm_testing::Texts;
using testing::Each;
using testing::ElementsAre;

const Group kBoth = Range("dp", 0, 2);

CallPredicate Named(int rank, std::string tensor) {
  return OnRank(rank, [tensor = std::move(tensor)](const CollectiveCall& call, int) {
    return call.site.tensor == tensor;
  });
}

// Rank 1's values after `program`, run with the rule on both ranks and without matching, so that
// only the rule's effect shows. Rank r starts from r + 1.
std::vector<double> RankOne(const std::function<MutationRule()>& rule,
                            const std::function<Tensor(Rank&, Communicator&, Tensor)>& program) {
  WorldOptions options = Options(2);
  options.fingerprint = false;
  World world(options);
  std::vector<double> values;
  const WorldResult result = world.Run([&](Rank& rank) {
    MutationCommunicator comm(rank.comm(), {rule()});
    EXPECT_EQ(comm.global_rank(), rank.global_rank());
    const Tensor out = program(rank, comm, Filled(rank.context(), 2, rank.global_rank() + 1));
    if (rank.global_rank() == 1) values = out.ToVector<double>();
  });
  EXPECT_TRUE(result.completed) << Texts(result.findings);
  return values;
}

Tensor Reduce(Rank&, Communicator& comm, Tensor x) {
  comm.AllReduce(x, ReduceOp::kSum, kBoth, SiteOf("x"));
  return x;
}

std::vector<double> AfterReduce(const std::function<MutationRule()>& rule) {
  return RankOne(rule, Reduce);
}

TEST(Mutation, RulesThatDontMatchLeaveTheCallAlone) {
  EXPECT_THAT(AfterReduce([] { return Drop(Named(1, "other")); }), Each(3));
  EXPECT_THAT(AfterReduce([] { return ZeroResult(Named(0, "x")); }), Each(3));
}

TEST(Mutation, ChangesOfTheResult) {
  EXPECT_THAT(AfterReduce([] { return ZeroResult(Named(1, "x")); }), Each(0));
  EXPECT_THAT(AfterReduce([] { return ScaleResult(Named(1, "x"), 0.5); }), Each(1.5));
  // The sign of the first element: bit 7 of its last byte.
  EXPECT_THAT(AfterReduce([] { return FlipBit(Named(1, "x"), 7, 7); }), ElementsAre(-3, 3));
}

TEST(Mutation, ResultsOf16BitsAreScaledToo) {
  World world(comm_testing::Options(2));
  std::vector<double> seen(2);
  world.Run([&](Rank& rank) {
    std::vector<MutationRule> rules;
    if (rank.global_rank() == 1) rules.push_back(ScaleResult(Named(1, "x"), 0.75));
    MutationCommunicator comm(rank.comm(), std::move(rules));
    Tensor x = Tensor::FromVector<BF16>(rank.context(), {1}, {BF16(1.5)});
    comm.AllReduce(x, ReduceOp::kSum, kBoth, SiteOf("x"));
    seen[static_cast<size_t>(rank.global_rank())] = static_cast<double>(*x.data<BF16>());
  });
  EXPECT_THAT(seen, ElementsAre(3, 2.25));
}

TEST(Mutation, ChangesOfTheCall) {
  EXPECT_THAT(AfterReduce([] { return ChangeReduceOp(Named(1, "x"), ReduceOp::kMax); }), Each(2));
  const auto turn = [] {
    return ChangeGroup([](const CollectiveCall&, int) { return true; },
                       [](const Group&) {
                         return comm_testing::GroupOf("turned", {1, 0});
                       });
  };
  EXPECT_THAT(
      RankOne(turn, [](Rank& rank, Communicator& comm,
                       Tensor x) { return comm.AllGather(rank.context(), x, kBoth, SiteOf("x")); }),
      ElementsAre(2, 2, 1, 1));
}

TEST(Mutation, DropAnswersWithTheOwnContribution) {
  // Both ranks drop, so that nobody waits.
  const auto drop = [] { return Drop([](const CollectiveCall&, int) { return true; }); };
  EXPECT_THAT(RankOne(drop, Reduce), Each(2));
  EXPECT_THAT(
      RankOne(drop, [](Rank& rank, Communicator& comm,
                       Tensor x) { return comm.AllGather(rank.context(), x, kBoth, SiteOf("x")); }),
      ElementsAre(0, 0, 2, 2));
  EXPECT_THAT(RankOne(drop,
                      [](Rank& rank, Communicator& comm, Tensor x) {
                        return comm.ReduceScatter(rank.context(), x, ReduceOp::kSum, kBoth,
                                                  SiteOf("x"));
                      }),
              ElementsAre(2));
  EXPECT_THAT(RankOne(drop,
                      [](Rank&, Communicator& comm, Tensor x) {
                        comm.Broadcast(x, 0, kBoth, SiteOf("x"));
                        return x;
                      }),
              Each(0));
  EXPECT_THAT(
      RankOne(drop,
              [](Rank& rank, Communicator& comm, Tensor x) {
                return comm.AllToAllV(rank.context(), x, {1, 1}, {2, 1}, kBoth, SiteOf("x"));
              }),
      ElementsAre(0, 0, 2));
  EXPECT_THAT(RankOne(drop,
                      [](Rank&, Communicator& comm, Tensor x) {
                        comm.Recv(x, 0, 0, kBoth, SiteOf("x"));
                        return x;
                      }),
              Each(0));
}

TEST(Mutation, SkipLeavesTheOutput) {
  EXPECT_THAT(RankOne([] { return Skip([](const CollectiveCall&, int) { return true; }); }, Reduce),
              Each(2));
}

TEST(Mutation, SwapWithNextExchangesTwoCalls) {
  const auto two = [](Rank& rank, Communicator& comm, Tensor a) {
    Tensor b = Filled(rank.context(), 2, 10 * (rank.global_rank() + 1));
    comm.AllReduce(a, ReduceOp::kSum, kBoth, SiteOf("a"));
    comm.AllReduce(b, ReduceOp::kSum, kBoth, SiteOf("b"));
    a.at<double>({1}) = b.at<double>({0});
    return a;
  };
  const auto any_of_rank_1 = [] { return SwapWithNext(OnRank(1, nullptr)); };
  EXPECT_THAT(RankOne([] { return Skip(Named(1, "none")); }, two), ElementsAre(3, 30));
  // Rank 1's b meets rank 0's a, and the other way round: finite, and wrong.
  EXPECT_THAT(RankOne(any_of_rank_1, two), ElementsAre(12, 21));
}

TEST(Mutation, NthMatchesOnce) {
  const auto thrice = [](Rank&, Communicator& comm, Tensor x) {
    for (int i = 0; i < 3; ++i) comm.AllReduce(x, ReduceOp::kMax, kBoth, SiteOf("x"));
    return x;
  };
  EXPECT_THAT(RankOne([] { return ScaleResult(Nth(2, Named(1, "x")), 8); }, thrice), Each(16));
  EXPECT_THAT(RankOne([] { return ScaleResult(Nth(3, Named(1, "x")), 8); }, thrice), Each(2));
}

TEST(Mutation, DelayUntilWaitIssuesLate) {
  const auto overlapped = [](Rank& rank, Communicator& comm, Tensor x) {
    auto work = comm.AllReduceAsync(x, ReduceOp::kSum, kBoth, SiteOf("x"));
    // A delayed call has not touched the buffer yet.
    Tensor seen = x.Clone(rank.context());
    work->Wait();
    seen.at<double>({1}) = x.at<double>({1});
    return seen;
  };
  EXPECT_THAT(RankOne([] { return DelayUntilWait(Named(1, "x")); }, overlapped), ElementsAre(2, 3));
  EXPECT_THAT(RankOne([] { return Skip(Named(1, "none")); }, overlapped),
              ElementsAre(testing::IsNan(), 3));
}

}  // namespace
}  // namespace plumbline
