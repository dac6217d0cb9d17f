// How worlds end: by exceptions, by findings, by ranks that won't; and how large they may be.
#include "parallel/comm/world.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <thread>

#include "base/error.h"
#include "tests/parallel/comm/comm_testing.h"

namespace plumbline {
namespace {

using comm_testing::Filled;
using comm_testing::GroupOf;
using comm_testing::Options;
using comm_testing::Range;
using comm_testing::SiteOf;
using comm_testing::Texts;

class Counted {
 public:
  explicit Counted(int& count) : count_(count) { ++count_; }
  ~Counted() { --count_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  int& count_;
};

TEST(WorldExceptions, TheFirstIsRethrownAndPeersUnwind) {
  int alive = 0;
  int aborted = 0;
  World world(Options(6));
  const Group all = Range("world", 0, 6);
  const auto body = [&](Rank& rank) {
    const Counted counted(alive);
    if (rank.global_rank() == 3) {
      rank.Yield();
      throw std::runtime_error("rank 3 has had enough");
    }
    try {
      rank.comm().Barrier(all, SiteOf("barrier"));
    } catch (const Aborted&) {
      ++aborted;
      throw;
    }
  };
  try {
    world.Run(body);
    FAIL() << "expected an exception";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "rank 3 has had enough");
  }
  EXPECT_EQ(alive, 0);
  EXPECT_EQ(aborted, 5);
}

TEST(WorldExceptions, AFailureBeforeTheFirstCallAndAWorldOfOne) {
  World world(Options(1));
  EXPECT_THROW(world.Run([](Rank&) { throw InvalidArgument("no"); }), InvalidArgument);
  // The world can run again.
  EXPECT_TRUE(world.Run([](Rank&) {}).completed);
}

TEST(WorldExceptions, RankMayBeSuspendedInsideACatchBlock) {
  // Without exception state of its own, a rank would rethrow what another one caught.
  constexpr int kRanks = 8;
  std::vector<std::string> caught(kRanks);
  World world(Options(kRanks));
  const Group all = Range("world", 0, kRanks);
  const WorldResult result = world.Run([&](Rank& rank) {
    const std::string mine = "of rank " + std::to_string(rank.global_rank());
    try {
      try {
        throw std::runtime_error(mine);
      } catch (const std::exception&) {
        rank.comm().Barrier(all, SiteOf("barrier"));
        try {
          throw std::logic_error("inner " + mine);
        } catch (const std::logic_error&) {
          rank.Yield();
        }
        throw;
      }
    } catch (const std::exception& error) {
      caught[rank.global_rank()] = error.what();
    }
  });
  EXPECT_TRUE(result.completed);
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(caught[rank], "of rank " + std::to_string(rank));
  }
}

// Communicates while an exception passes through.
class CallsInDestructor {
 public:
  CallsInDestructor(Rank& rank, const Group& group) : rank_(rank), group_(group) {}
  ~CallsInDestructor() { rank_.comm().Barrier(group_, SiteOf("x")); }

 private:
  Rank& rank_;
  const Group& group_;
};

TEST(WorldExceptions, DestructorsMayCommunicateDuringUnwinding) {
  World world(Options(2));
  const Group all = Range("world", 0, 2);
  EXPECT_THROW(world.Run([&](Rank& rank) {
    const CallsInDestructor guard(rank, all);
    if (rank.global_rank() == 0) throw std::runtime_error("first");
    rank.comm().Barrier(all, SiteOf("x"));
    rank.comm().Barrier(all, SiteOf("x"));
  }),
               std::runtime_error);
}

TEST(WorldExceptions, WorkThatOutlivesItsWorldIsAborted) {
  std::shared_ptr<Work> kept;
  {
    World world(Options(2));
    EXPECT_THROW(world.Run([&](Rank& rank) {
      Tensor x = Filled(rank.context(), 1, 1);
      if (rank.global_rank() == 1) throw std::runtime_error("x");
      kept = rank.comm().AllReduceAsync(x, ReduceOp::kSum, Range("tp", 0, 2), SiteOf("x"));
      kept->Wait();
    }),
                 std::runtime_error);
  }
  EXPECT_FALSE(kept->Done());
  EXPECT_THROW(kept->Wait(), Aborted);
}

TEST(WorldEnds, RanksThatGoOnAfterAbortedEndAsWell) {
  int alive = 0;
  World world(Options(4));
  const Group all = Range("world", 0, 4);
  EXPECT_THROW(world.Run([&](Rank& rank) {
    if (rank.global_rank() == 0) throw std::runtime_error("stop");
    const Counted counted(alive);
    // Goes on once; goes on for ever.
    try {
      rank.comm().Barrier(all, SiteOf("x"));
    } catch (const Aborted&) {
    }
    while (rank.global_rank() == 2) {
      try {
        rank.Yield();
      } catch (const std::exception&) {
      }
    }
  }),
               std::runtime_error);
  EXPECT_EQ(alive, 0);
}

TEST(WorldEnds, ARankThatCatchesEverythingIsLeftBehind) {
  World world(Options(2));
  EXPECT_THROW(world.Run([&](Rank& rank) {
    if (rank.global_rank() == 0) throw std::runtime_error("stop");
    while (true) {
      try {
        rank.Yield();
      } catch (...) {
      }
    }
  }),
               std::runtime_error);
}

TEST(WorldEnds, CurrentRankFollowsTheSwitches) {
  World world(Options(3));
  std::vector<char> right(3, 0);
  world.Run([&](Rank& rank) {
    bool good = CurrentRank().global_rank == rank.global_rank();
    rank.Yield();
    good = good && CurrentRank().global_rank == rank.global_rank();
    right[rank.global_rank()] = good ? 1 : 0;
  });
  EXPECT_THAT(right, testing::Each(1));
  EXPECT_EQ(CurrentRank().global_rank, -1);
}

TEST(WorldThreads, WorldsRunSideBySide) {
  std::vector<double> sums(4, 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t, &sums] {
      World world(Options(8));
      world.Run([&](Rank& rank) {
        Tensor x = Filled(rank.context(), 16, t);
        for (int i = 0; i < 50; ++i) {
          try {
            throw std::runtime_error("switches in a catch block");
          } catch (const std::exception&) {
            rank.comm().AllReduce(x, ReduceOp::kMax, Range("world", 0, 8), SiteOf("x"));
          }
        }
        rank.comm().AllReduce(x, ReduceOp::kSum, Range("world", 0, 8), SiteOf("x"));
        if (rank.global_rank() == 0) sums[t] = x.at<double>({15});
      });
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(sums, testing::ElementsAre(0, 8, 16, 24));
}

TEST(WorldSize, ManyRanksInSmallGroupsAndOneLargeOne) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr int kRanks = 1024;  // a sanitizer keeps a second stack for each
#else
  constexpr int kRanks = 16384;
#endif
  World world(Options(kRanks));
  const Group all = Range("world", 0, kRanks);
  std::vector<char> good(kRanks, 0);
  const WorldResult result = world.Run([&](Rank& rank) {
    const int me = rank.global_rank();
    const Group group = Range("tp", me / 8 * 8, 8);
    Tensor x = Filled(rank.context(), 4, me);
    rank.comm().AllReduce(x, ReduceOp::kSum, group, SiteOf("x"));
    Tensor count = Filled(rank.context(), 1, 1);
    rank.comm().AllReduce(count, ReduceOp::kSum, all, SiteOf("n"));
    const double first = me / 8 * 8;
    good[me] = x.at<double>({3}) == 8 * first + 28 && count.at<double>({0}) == kRanks ? 1 : 0;
  });
  EXPECT_TRUE(result.completed);
  EXPECT_TRUE(result.findings.empty());
  EXPECT_THAT(good, testing::Each(1));
}

TEST(WorldSize, BeyondTheGuardPages) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  World world(Options(20000));
  int ended = 0;
  world.Run([&](Rank& rank) {
    rank.Yield();
    ++ended;
  });
  EXPECT_EQ(ended, 20000);
#endif
}

}  // namespace
}  // namespace plumbline
