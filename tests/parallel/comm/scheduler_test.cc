#include "parallel/comm/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace plumbline {
namespace {

SchedulerOptions Options(int ranks, bool random = false, uint64_t seed = 0) {
  SchedulerOptions options;
  options.ranks = ranks;
  options.random = random;
  options.seed = seed;
  return options;
}

// The order in which ranks run when each yields twice.
std::vector<int> Order(const SchedulerOptions& options) {
  Scheduler scheduler(options);
  std::vector<int> order;
  scheduler.Run(
      [&](int rank) {
        for (int i = 0; i < 3; ++i) {
          order.push_back(rank);
          EXPECT_EQ(scheduler.current(), rank);
          if (i < 2) scheduler.Yield();
        }
      },
      [] { FAIL() << "nobody blocks"; });
  EXPECT_EQ(scheduler.steps(), 3 * options.ranks);
  return order;
}

TEST(Scheduler, RoundRobinTakesTurns) {
  EXPECT_THAT(Order(Options(3)), testing::ElementsAre(0, 1, 2, 0, 1, 2, 0, 1, 2));
}

TEST(Scheduler, RandomOrderIsAFunctionOfTheSeed) {
  const std::vector<int> first = Order(Options(8, true, 1));
  EXPECT_EQ(first, Order(Options(8, true, 1)));
  EXPECT_NE(first, Order(Options(8, true, 2)));
  std::vector<int> count(8, 0);
  for (int rank : first) ++count[rank];
  EXPECT_THAT(count, testing::Each(3));
}

TEST(Scheduler, RandomPicksEveryRankFirst) {
  std::vector<int> firsts(4, 0);
  for (uint64_t seed = 0; seed < 400; ++seed) ++firsts[Order(Options(4, true, seed)).front()];
  // Uniform: 100 each; 50 to 150 is more than five standard deviations.
  EXPECT_THAT(firsts, testing::Each(testing::AllOf(testing::Ge(50), testing::Le(150))));
}

TEST(Scheduler, BlockedRanksWaitUntilUnblocked) {
  for (const bool random : {false, true}) {
    Scheduler scheduler(Options(3, random, 7));
    std::vector<int> order;
    int stuck = 0;
    scheduler.Run(
        [&](int rank) {
          scheduler.Block();
          order.push_back(rank);
          if (rank > 0) scheduler.Unblock(rank - 1);
        },
        [&] {
          ++stuck;
          EXPECT_EQ(scheduler.runnable(), 0);
          EXPECT_TRUE(scheduler.blocked(2));
          scheduler.Unblock(2);
          scheduler.Unblock(2);  // once is enough
        });
    EXPECT_EQ(stuck, 1);
    EXPECT_THAT(order, testing::ElementsAre(2, 1, 0));
    EXPECT_TRUE(scheduler.ended(0));
  }
}

TEST(Scheduler, EachRankHasItsOwnExceptionState) {
  Scheduler scheduler(Options(4));
  std::vector<int> uncaught(4, -1);
  class Suspends {
   public:
    explicit Suspends(Scheduler& scheduler) : scheduler_(scheduler) {}
    ~Suspends() { scheduler_.Yield(); }

   private:
    Scheduler& scheduler_;
  };
  scheduler.Run(
      [&](int rank) {
        if (rank % 2 == 0) {
          // Suspended while an exception is on its way.
          try {
            const Suspends suspends(scheduler);
            throw std::runtime_error("x");
          } catch (const std::exception&) {
          }
        } else {
          uncaught[rank] = std::uncaught_exceptions();
        }
      },
      [] {});
  EXPECT_THAT(uncaught, testing::ElementsAre(-1, 0, -1, 0));
  EXPECT_EQ(std::uncaught_exceptions(), 0);
}

TEST(Scheduler, AbandonedRanksCountAsEnded) {
  Scheduler scheduler(Options(3));
  std::vector<int> after;
  scheduler.Run(
      [&](int rank) {
        if (rank == 1) scheduler.Abandon();
        scheduler.Yield();
        after.push_back(rank);
      },
      [] {});
  EXPECT_THAT(after, testing::ElementsAre(0, 2));
  EXPECT_TRUE(scheduler.ended(1));
}

}  // namespace
}  // namespace plumbline
