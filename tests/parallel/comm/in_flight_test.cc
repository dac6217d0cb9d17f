// Between issue and Wait: poison over the output, a private copy in place, a watch over the input.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <utility>

#include "parallel/comm/world.h"
#include "tests/parallel/comm/comm_testing.h"

namespace plumbline {
namespace {

using comm_testing::Filled;
using comm_testing::Options;
using comm_testing::Range;
using comm_testing::SiteOf;
using comm_testing::Texts;

bool AllPoison(const Tensor& x) {
  for (double value : x.ToVector<double>()) {
    if (!std::isnan(value)) return false;
  }
  return true;
}

bool AllEqual(const Tensor& x, double expected) {
  for (double value : x.ToVector<double>()) {
    if (!(value == expected)) return false;
  }
  return true;
}

class InFlightTest : public testing::TestWithParam<std::pair<SchedulePolicy, int>> {
 protected:
  WorldOptions options() const {
    WorldOptions options = Options(GetParam().second);
    options.policy = GetParam().first;
    options.seed = 11;
    return options;
  }
  Group group() const { return Range("tp", 0, options().size); }
  double sum() const { return options().size * (options().size + 1) / 2.0; }

  void ExpectClean(const std::function<bool(Rank&)>& body) {
    std::vector<char> good(static_cast<size_t>(options().size), 0);
    World world(options());
    const WorldResult result =
        world.Run([&](Rank& rank) { good[rank.global_rank()] = body(rank) ? 1 : 0; });
    EXPECT_TRUE(result.completed);
    EXPECT_TRUE(result.findings.empty()) << Texts(result.findings);
    EXPECT_THAT(good, testing::Each(1));
  }
};

TEST_P(InFlightTest, OutputsHoldPoisonUntilWaitOnEveryRank) {
  ExpectClean([&](Rank& rank) {
    const int size = rank.world_size();
    Communicator& comm = rank.comm();
    Tensor reduced = Filled(rank.context(), 4, rank.global_rank() + 1);
    const Tensor mine = Filled(rank.context(), 2, rank.global_rank());
    Tensor gathered = Tensor::Zeros(rank.context(), DType::kF64, {2 * size});
    const Tensor whole = Filled(rank.context(), 3 * size, 1);
    Tensor shard = Tensor::Zeros(rank.context(), DType::kF64, {3});
    auto a = comm.AllReduceAsync(reduced, ReduceOp::kSum, group(), SiteOf("a"));
    auto b = comm.AllGatherAsync(mine, gathered, group(), SiteOf("b"));
    auto c = comm.ReduceScatterAsync(whole, shard, ReduceOp::kSum, group(), SiteOf("c"));
    // All have issued: the data have moved, yet nobody may see them before its own Wait.
    comm.Barrier(group(), SiteOf("barrier"));
    if (!AllPoison(reduced) || !AllPoison(gathered) || !AllPoison(shard)) return false;
    c->Wait();
    a->Wait();
    b->Wait();
    return AllEqual(reduced, sum()) && AllEqual(shard, size) &&
           gathered.at<double>({2 * size - 1}) == size - 1 && AllEqual(mine, rank.global_rank());
  });
}

TEST_P(InFlightTest, InPlaceIsCopiedAtIssue) {
  ExpectClean([&](Rank& rank) {
    Tensor x = Filled(rank.context(), 4, rank.global_rank() + 1);
    auto work = rank.comm().AllReduceAsync(x, ReduceOp::kSum, group(), SiteOf("x"));
    for (int64_t i = 0; i < 4; ++i) x.at<double>({i}) = -1;  // into the poison: lost
    work->Wait();
    return AllEqual(x, sum());
  });
}

TEST_P(InFlightTest, ShardsInsideTheirBufferWork) {
  // Megatron's buckets: the output of reduce_scatter is a part of its input, the input of
  // all_gather a part of its output.
  for (const bool blocking : {false, true}) {
    ExpectClean([&](Rank& rank) {
      const int64_t me = rank.global_rank();
      const int64_t size = rank.world_size();
      Tensor buffer = Filled(rank.context(), 3 * size, static_cast<double>(me + 1));
      Tensor shard = buffer.Slice(0, 3 * me, 3 * me + 3);
      CollectiveCall call;
      call.op = CollectiveOp::kReduceScatter;
      call.group = group();
      call.input = buffer;
      call.output = shard;
      call.site = SiteOf("grads");
      call.blocking = blocking;
      rank.comm().Issue(call)->Wait();
      if (!AllEqual(shard, sum())) return false;
      call.op = CollectiveOp::kAllGather;
      call.input = shard;
      call.output = buffer;
      rank.comm().Issue(call)->Wait();
      return AllEqual(buffer, sum());
    });
  }
}

TEST_P(InFlightTest, DoneDeliversAndPollingLetsOthersRun) {
  ExpectClean([&](Rank& rank) {
    Tensor x = Filled(rank.context(), 4, rank.global_rank() + 1);
    for (int i = 0; i < rank.global_rank(); ++i) rank.Yield();
    auto work = rank.comm().AllReduceAsync(x, ReduceOp::kSum, group(), SiteOf("x"));
    while (!work->Done()) {
      if (!AllPoison(x)) return false;
    }
    return AllEqual(x, sum());
  });
}

TEST_P(InFlightTest, WorkThatIsDroppedStillServesThePeers) {
  ExpectClean([&](Rank& rank) {
    Tensor x = Filled(rank.context(), 4, rank.global_rank() + 1);
    const bool drops = rank.global_rank() == 0;
    auto work = rank.comm().AllReduceAsync(x, ReduceOp::kSum, group(), SiteOf("x"));
    if (drops) {
      work.reset();
      rank.comm().Barrier(group(), SiteOf("barrier"));
      return AllPoison(x);
    }
    work->Wait();
    rank.comm().Barrier(group(), SiteOf("barrier"));
    return AllEqual(x, sum());
  });
}

std::string NameOf(const testing::TestParamInfo<std::pair<SchedulePolicy, int>>& info) {
  return (info.param.first == SchedulePolicy::kRandom ? "random" : "roundrobin") +
         std::to_string(info.param.second);
}

INSTANTIATE_TEST_SUITE_P(Sweep, InFlightTest,
                         testing::Values(std::pair{SchedulePolicy::kRoundRobin, 1},
                                         std::pair{SchedulePolicy::kRoundRobin, 4},
                                         std::pair{SchedulePolicy::kRandom, 1},
                                         std::pair{SchedulePolicy::kRandom, 4}),
                         NameOf);

// Rank 1 of 3 sends or contributes a buffer and, if told so, writes to it while it is in flight.
std::vector<Finding> RunChange(bool change, bool waits, bool message, uint64_t seed,
                               bool fingerprint) {
  WorldOptions options = Options(3);
  options.policy = SchedulePolicy::kRandom;
  options.seed = seed;
  options.fingerprint = fingerprint;
  options.on_mismatch = OnMismatch::kContinue;
  World world(options);
  const Group group = Range("cp", 0, 3);
  const WorldResult result = world.Run([&](Rank& rank) {
    const bool acts = rank.global_rank() == 1;
    Tensor mine = Filled(rank.context(), 3, rank.global_rank());
    Tensor other = Tensor::Empty(rank.context(), DType::kF64, {message ? 3 : 9});
    std::shared_ptr<Work> work;
    if (!message) {
      work = rank.comm().AllGatherAsync(mine, other, group, SiteOf("kv"));
    } else if (acts) {
      work = rank.comm().SendAsync(mine, 2, 0, group, SiteOf("kv"));
    } else if (rank.global_rank() == 2) {
      work = rank.comm().RecvAsync(other, 1, 0, group, SiteOf("kv"));
    }
    if (acts && change) mine.at<double>({2}) = 5;
    if (work != nullptr && (waits || !acts)) work->Wait();
    if (acts && !change && waits) mine.at<double>({2}) = 5;  // after Wait: allowed
  });
  EXPECT_TRUE(result.completed);
  return result.findings;
}

TEST(RecordChecksums, AreThoseOfInputAndOutputWhateverTheSize) {
  for (const int64_t elements : {int64_t{10}, int64_t{100000}}) {
    for (const bool async : {false, true}) {
      for (const bool hangs : {false, true}) {
        WorldOptions options = Options(3);
        World world(options);
        Checksum before[3];
        Checksum after;
        const WorldResult result = world.Run([&](Rank& rank) {
          const int me = rank.global_rank();
          Tensor x = Filled(rank.context(), elements, me + 1);
          before[me] = ChecksumOf(x);
          if (me == 2 && hangs) return;
          const Group group = Range("dp", 0, 3);
          if (async) {
            rank.comm().AllReduceAsync(x, ReduceOp::kSum, group, SiteOf("x"))->Wait();
          } else {
            rank.comm().AllReduce(x, ReduceOp::kSum, group, SiteOf("x"));
          }
          after = ChecksumOf(x);
        });
        EXPECT_EQ(result.completed, !hangs);
        ASSERT_EQ(result.records.size(), hangs ? 2u : 3u);
        for (const CollectiveRecord& record : result.records) {
          EXPECT_EQ(record.before, before[record.global_rank]) << elements;
          EXPECT_EQ(record.after, hangs ? Checksum() : after);
        }
      }
    }
  }
}

TEST(PayloadChanged, IsFoundOnEverySchedule) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    for (const bool message : {false, true}) {
      for (const bool waits : {false, true}) {
        for (const bool fingerprint : {false, true}) {
          EXPECT_TRUE(RunChange(false, waits, message, seed, fingerprint).empty());
          const std::vector<Finding> findings = RunChange(true, waits, message, seed, fingerprint);
          ASSERT_EQ(findings.size(), 1u) << Texts(findings);
          EXPECT_EQ(findings[0].kind, FindingClass::kPayloadChanged);
          EXPECT_THAT(findings[0].ranks, testing::ElementsAre(1));
          EXPECT_EQ(findings[0].site, SiteOf("kv"));
          EXPECT_EQ(findings[0].group, "cp{0,1,2}");
          EXPECT_NE(findings[0].actual, findings[0].reference);
        }
      }
    }
  }
}

TEST(PayloadChanged, StopsTheWorldUnlessToldToContinue) {
  World world(Options(2));
  bool reached = false;
  const WorldResult result = world.Run([&](Rank& rank) {
    Tensor mine = Filled(rank.context(), 3, 1);
    Tensor all = Tensor::Empty(rank.context(), DType::kF64, {6});
    auto work = rank.comm().AllGatherAsync(mine, all, Range("tp", 0, 2), SiteOf("x"));
    mine.at<double>({0}) = 9;
    work->Wait();
    reached = true;
  });
  EXPECT_FALSE(result.completed);
  EXPECT_FALSE(reached);
  ASSERT_FALSE(result.findings.empty());
  EXPECT_EQ(result.findings[0].kind, FindingClass::kPayloadChanged);
}

}  // namespace
}  // namespace plumbline
