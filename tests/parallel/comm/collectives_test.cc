// Every collective against its definition, over all group sizes, dtypes, policies and odd sizes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "parallel/comm/world.h"
#include "tests/parallel/comm/comm_testing.h"

namespace plumbline {
namespace {

using comm_testing::GroupOf;
using comm_testing::Options;
using comm_testing::Range;
using comm_testing::SiteOf;
using comm_testing::Texts;

// Sums of these depend on the order of addition, so that a wrong order shows in the bits.
double Value(int rank, int64_t i) { return 1.0 / (3 + rank) + 0.1 * static_cast<double>(i % 17); }

template <class T>
std::vector<T> Values(int rank, int64_t n) {
  std::vector<T> values(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    values[i] = static_cast<T>(std::is_integral_v<T> ? static_cast<double>(100 * rank + i)
                                                     : Value(rank, i));
  }
  return values;
}

// bf16 and f16 are combined in f32, and every result is rounded, as NCCL does.
template <class T, class F>
T Rounded(F f, T a, T b) {
  if constexpr (std::is_same_v<T, BF16> || std::is_same_v<T, F16>) {
    return T(f(static_cast<float>(a), static_cast<float>(b)));
  } else {
    return f(a, b);
  }
}

template <class T>
std::vector<T> Naive(ReduceOp op, const std::vector<int>& members, int64_t n) {
  std::vector<T> result = Values<T>(members[0], n);
  for (size_t m = 1; m < members.size(); ++m) {
    const std::vector<T> next = Values<T>(members[m], n);
    for (int64_t i = 0; i < n; ++i) {
      result[i] = Rounded(
          [op](auto a, auto b) {
            if (op == ReduceOp::kMax) return std::max(a, b);
            return op == ReduceOp::kMin ? std::min(a, b) : a + b;
          },
          result[i], next[i]);
    }
  }
  if (op == ReduceOp::kAvg) {
    const auto count = static_cast<double>(members.size());
    for (T& value : result) {
      value = Rounded([](auto a, auto b) { return a / b; }, value, static_cast<T>(count));
    }
  }
  return result;
}

template <class T>
std::vector<T> Part(const std::vector<T>& whole, int64_t begin, int64_t n) {
  return std::vector<T>(whole.begin() + begin, whole.begin() + begin + n);
}

// Tests compare bits: -0 and NaN count.
template <class T>
bool SameBits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

using Parameters = std::tuple<int, SchedulePolicy, int64_t>;

class CollectivesTest : public testing::TestWithParam<Parameters> {
 protected:
  int size() const { return std::get<0>(GetParam()); }
  int64_t elements() const { return std::get<2>(GetParam()); }
  // Members in an order of their own, with a stranger on either side.
  Group group() const {
    std::vector<int> members;
    for (int i = size(); i >= 1; --i) members.push_back(i);
    return GroupOf("odd", members);
  }
  WorldOptions options() const {
    WorldOptions options = Options(size() + 2);
    options.policy = std::get<1>(GetParam());
    options.seed = 5;
    return options;
  }
  // Runs `body` on the members and expects a clean world in which each returns true.
  template <class F>
  void Run(F&& body) {
    std::vector<char> good(static_cast<size_t>(options().size), 1);
    const Group members = group();
    World world(options());
    const WorldResult result = world.Run([&](Rank& rank) {
      const int position = members.IndexOf(rank.global_rank());
      if (position >= 0) good[rank.global_rank()] = body(rank, members, position) ? 1 : 0;
    });
    EXPECT_TRUE(result.completed);
    EXPECT_TRUE(result.findings.empty()) << Texts(result.findings);
    EXPECT_THAT(good, testing::Each(1));
  }
  template <class T>
  void CheckReductions(ReduceOp op);
};

template <class T>
void CollectivesTest::CheckReductions(ReduceOp op) {
  const int64_t n = elements();
  Run([&](Rank& rank, const Group& group, int position) {
    const int me = rank.global_rank();
    Tensor all = Tensor::FromVector<T>(rank.context(), {n}, Values<T>(me, n));
    rank.comm().AllReduce(all, op, group, SiteOf("all"));
    const int64_t whole = n * group.size();
    const Tensor input = Tensor::FromVector<T>(rank.context(), {whole}, Values<T>(me, whole));
    const Tensor shard =
        rank.comm().ReduceScatter(rank.context(), input, op, group, SiteOf("shard"));
    const std::vector<T> expected_all = Naive<T>(op, group.members, n);
    const std::vector<T> expected_shard = Part(Naive<T>(op, group.members, whole), position * n, n);
    return SameBits(all.ToVector<T>(), expected_all) &&
           SameBits(shard.ToVector<T>(), expected_shard) && shard.shape() == Shape{n};
  });
}

TEST_P(CollectivesTest, ReductionsEqualTheirDefinitionBitForBit) {
  for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMax, ReduceOp::kMin}) {
    CheckReductions<double>(op);
    CheckReductions<float>(op);
    CheckReductions<BF16>(op);
    CheckReductions<F16>(op);
    if (op != ReduceOp::kAvg) CheckReductions<int64_t>(op);
  }
}

TEST_P(CollectivesTest, AllGatherConcatenatesInGroupOrder) {
  const int64_t n = elements();
  Run([&](Rank& rank, const Group& group, int) {
    const Tensor input =
        Tensor::FromVector<float>(rank.context(), {n, 2}, Values<float>(rank.global_rank(), 2 * n));
    const Tensor all = rank.comm().AllGather(rank.context(), input, group, SiteOf("x"));
    std::vector<float> expected;
    for (int member : group.members) {
      const std::vector<float> part = Values<float>(member, 2 * n);
      expected.insert(expected.end(), part.begin(), part.end());
    }
    return SameBits(all.ToVector<float>(), expected) && all.shape() == Shape{n * group.size(), 2};
  });
}

TEST_P(CollectivesTest, BroadcastGivesTheRootsValuesFromEveryRoot) {
  const int64_t n = elements();
  Run([&](Rank& rank, const Group& group, int) {
    bool good = true;
    for (int root = 0; root < group.size(); ++root) {
      Tensor x =
          Tensor::FromVector<int64_t>(rank.context(), {n}, Values<int64_t>(rank.global_rank(), n));
      rank.comm().Broadcast(x, root, group, SiteOf("x"));
      good = good && SameBits(x.ToVector<int64_t>(), Values<int64_t>(group.members[root], n));
    }
    return good;
  });
}

TEST_P(CollectivesTest, AllToAllTransposesTheBlocks) {
  const int64_t n = elements();
  Run([&](Rank& rank, const Group& group, int position) {
    const int64_t whole = n * group.size();
    const Tensor input = Tensor::FromVector<double>(rank.context(), {whole},
                                                    Values<double>(rank.global_rank(), whole));
    const Tensor output = rank.comm().AllToAll(rank.context(), input, group, SiteOf("x"));
    std::vector<double> expected;
    for (int member : group.members) {
      const std::vector<double> part = Part(Values<double>(member, whole), position * n, n);
      expected.insert(expected.end(), part.begin(), part.end());
    }
    return SameBits(output.ToVector<double>(), expected);
  });
}

TEST_P(CollectivesTest, AllToAllVTakesUnevenAndEmptyParts) {
  // Rows from a to b; some are zero.
  const auto rows = [this](int a, int b) { return (int64_t{a} * 3 + b * 5) % (elements() + 2); };
  Run([&](Rank& rank, const Group& group, int position) {
    const int g = group.size();
    std::vector<int64_t> input_splits;
    std::vector<int64_t> output_splits;
    for (int p = 0; p < g; ++p) {
      input_splits.push_back(rows(position, p));
      output_splits.push_back(rows(p, position));
    }
    const auto total = [&](int from) {
      int64_t sum = 0;
      for (int p = 0; p < g; ++p) sum += rows(from, p);
      return sum;
    };
    const Tensor input =
        Tensor::FromVector<float>(rank.context(), {total(position), 3},
                                  Values<float>(rank.global_rank(), 3 * total(position)));
    const Tensor output = rank.comm().AllToAllV(rank.context(), input, input_splits, output_splits,
                                                group, SiteOf("x"));
    std::vector<float> expected;
    for (int p = 0; p < g; ++p) {
      int64_t before = 0;
      for (int q = 0; q < position; ++q) before += rows(p, q);
      const std::vector<float> part =
          Part(Values<float>(group.members[p], 3 * total(p)), 3 * before, 3 * rows(p, position));
      expected.insert(expected.end(), part.begin(), part.end());
    }
    return SameBits(output.ToVector<float>(), expected);
  });
}

TEST_P(CollectivesTest, MessagesArriveInOrderBySourceAndTag) {
  const int64_t n = elements();
  Run([&](Rank& rank, const Group& group, int position) {
    const int g = group.size();
    const int next = (position + 1) % g;
    const int previous = (position + g - 1) % g;
    const auto message = [&](int from, int64_t k) {
      return Part(Values<double>(from, n + k), k, n);
    };
    std::vector<std::shared_ptr<Work>> works;
    for (const auto& [tag, k] : {std::pair<int, int>{7, 0}, {8, 1}, {7, 2}}) {
      const Tensor x = Tensor::FromVector<double>(rank.context(), {n}, message(position, k));
      works.push_back(rank.comm().SendAsync(x, next, tag, group, SiteOf("ring")));
    }
    bool good = true;
    // Tag 8 was sent second and is taken first; the two of tag 7 keep their order.
    for (const auto& [tag, k] : {std::pair<int, int>{8, 1}, {7, 0}, {7, 2}}) {
      Tensor x = Tensor::Empty(rank.context(), DType::kF64, {n});
      rank.comm().Recv(x, previous, tag, group, SiteOf("ring"));
      good = good && SameBits(x.ToVector<double>(), message(previous, k));
    }
    for (const auto& work : works) work->Wait();
    return good;
  });
}

TEST_P(CollectivesTest, BarrierHoldsEveryRankUntilTheLast) {
  int arrived = 0;
  Run([&](Rank& rank, const Group& group, int position) {
    bool good = true;
    for (int round = 1; round <= 3; ++round) {
      for (int i = 0; i < position; ++i) rank.Yield();
      ++arrived;
      rank.comm().Barrier(group, SiteOf("barrier"));
      good = good && arrived >= round * group.size();
    }
    return good;
  });
}

std::string NameOf(const testing::TestParamInfo<Parameters>& info) {
  const auto& [size, policy, elements] = info.param;
  return "g" + std::to_string(size) +
         (policy == SchedulePolicy::kRandom ? "random" : "roundrobin") + "n" +
         std::to_string(elements);
}

INSTANTIATE_TEST_SUITE_P(
    Sweep, CollectivesTest,
    testing::Combine(testing::Range(1, 9),
                     testing::Values(SchedulePolicy::kRoundRobin, SchedulePolicy::kRandom),
                     testing::Values(int64_t{0}, int64_t{1}, int64_t{7}, int64_t{5000})),
    NameOf);

// One program with every operation on the groups of a mesh; the bits of all that it computes.
struct Outcome {
  std::vector<std::vector<double>> values;
  std::vector<std::string> records;
};

Outcome RunMeshProgram(SchedulePolicy policy, uint64_t seed) {
  ParallelConfig config;
  config.tp = 2;
  config.dp = 4;
  const Mesh mesh(config);
  WorldOptions options = Options(mesh.world_size());
  options.policy = policy;
  options.seed = seed;
  World world(options);
  Outcome outcome;
  outcome.values.resize(static_cast<size_t>(options.size));
  const WorldResult result = world.Run([&](Rank& rank) {
    const int me = rank.global_rank();
    const Group& tp = mesh.GroupOf("tp", me);
    const Group& dp = mesh.GroupOf("dp", me);
    const Group& all = mesh.GroupOf("world", me);
    Tensor x = Tensor::FromVector<double>(rank.context(), {8}, Values<double>(me, 8));
    for (int step = 0; step < 3; ++step) {
      for (int i = 0; i < (me * 7 + step) % 5; ++i) rank.Yield();
      rank.comm().AllReduce(x, ReduceOp::kSum, tp, SiteOf("a"));
      auto work = rank.comm().AllReduceAsync(x, ReduceOp::kAvg, dp, SiteOf("b"));
      rank.comm().Barrier(all, SiteOf("c"));
      work->Wait();
      const Tensor shard =
          rank.comm().ReduceScatter(rank.context(), x, ReduceOp::kSum, dp, SiteOf("d"));
      x = rank.comm().AllGather(rank.context(), shard, dp, SiteOf("e"));
    }
    outcome.values[me] = x.ToVector<double>();
  });
  EXPECT_TRUE(result.completed);
  EXPECT_TRUE(result.findings.empty()) << Texts(result.findings);
  for (const CollectiveRecord& record : result.records) {
    outcome.records.push_back(ToString(record) + " " + ToString(record.before) + " " +
                              ToString(record.after) + " " + std::to_string(record.issue_time) +
                              " " + std::to_string(record.completion_time));
  }
  return outcome;
}

TEST(WorldSchedule, EverySeedGivesTheSameBits) {
  const Outcome first = RunMeshProgram(SchedulePolicy::kRoundRobin, 0);
  std::vector<std::vector<std::string>> interleavings;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const Outcome other = RunMeshProgram(SchedulePolicy::kRandom, seed);
    for (size_t rank = 0; rank < first.values.size(); ++rank) {
      EXPECT_TRUE(SameBits(first.values[rank], other.values[rank])) << "seed " << seed;
    }
    interleavings.push_back(other.records);
  }
  // The seeds do make a difference to the schedule; otherwise the test above would be empty.
  EXPECT_NE(interleavings[0], interleavings[1]);
}

TEST(WorldSchedule, SameSeedGivesTheSameRecords) {
  for (SchedulePolicy policy : {SchedulePolicy::kRoundRobin, SchedulePolicy::kRandom}) {
    const Outcome a = RunMeshProgram(policy, 3);
    EXPECT_FALSE(a.records.empty());
    EXPECT_EQ(a.records, RunMeshProgram(policy, 3).records);
  }
}

TEST(WorldGroups, AHashThatIsNotSetOrBelongsToOthersIsComputedAnew) {
  World world(Options(4));
  std::vector<double> sums(4);
  const WorldResult result = world.Run([&](Rank& rank) {
    Group group = rank.global_rank() < 2 ? Range("tp", 0, 2) : Range("tp", 2, 2);
    group.hash = rank.global_rank() == 3 || rank.global_rank() == 0 ? 0 : group.hash;
    Tensor x = comm_testing::Filled(rank.context(), 1, rank.global_rank() + 1);
    rank.comm().AllReduce(x, ReduceOp::kSum, group, SiteOf("x"));
    // The mistake of a decorator that changes the members and keeps the hash.
    group = rank.global_rank() % 2 == 0 ? GroupOf("dp", {0, 2}) : GroupOf("dp", {1, 3});
    group.hash = 12345;
    rank.comm().AllReduce(x, ReduceOp::kSum, group, SiteOf("x"));
    sums[rank.global_rank()] = x.at<double>({0});
  });
  EXPECT_TRUE(result.completed);
  EXPECT_TRUE(result.findings.empty()) << Texts(result.findings);
  EXPECT_THAT(sums, testing::Each(10.0));
}

TEST(WorldErrors, CallsThatContradictThemselvesAreRefused) {
  const auto refuses = [](const std::function<void(Rank&)>& body) {
    WorldOptions options = Options(2);
    World world(options);
    EXPECT_THROW(world.Run(body), InvalidArgument);
  };
  const Group both = Range("tp", 0, 2);
  refuses([&](Rank& rank) {
    const Tensor x = comm_testing::Filled(rank.context(), 3, 1);
    rank.comm().ReduceScatter(rank.context(), x, ReduceOp::kSum, both, SiteOf("x"));
  });
  refuses([&](Rank& rank) {
    Tensor x = Tensor::Zeros(rank.context(), DType::kI64, {2});
    rank.comm().AllReduce(x, ReduceOp::kAvg, both, SiteOf("x"));
  });
  refuses([&](Rank& rank) {
    Tensor x = Tensor::Zeros(rank.context(), DType::kF64, {2, 3}).Transpose(0, 1);
    rank.comm().AllReduce(x, ReduceOp::kSum, both, SiteOf("x"));
  });
  refuses([&](Rank& rank) {
    Tensor x = comm_testing::Filled(rank.context(), 3, 1);
    rank.comm().Broadcast(x, 2, both, SiteOf("x"));
  });
  refuses([&](Rank& rank) {
    const Tensor x = comm_testing::Filled(rank.context(), 3, 1);
    rank.comm().AllToAllV(rank.context(), x, {1, 1}, {1, 2}, both, SiteOf("x"));
  });
  refuses([&](Rank& rank) {
    Tensor x = comm_testing::Filled(rank.context(), 3, 1);
    rank.comm().AllReduce(x, ReduceOp::kSum, GroupOf("tp", {0, 0, 1}), SiteOf("x"));
  });
  refuses([&](Rank& rank) {
    Tensor x = comm_testing::Filled(rank.context(), 3, 1);
    rank.comm().AllReduce(x, ReduceOp::kSum, GroupOf("tp", {0, 2}), SiteOf("x"));
  });
  EXPECT_THROW(World(Options(0)), InvalidArgument);
}

TEST(WorldMemory, TensorsMayOutliveTheirWorld) {
  Tensor kept;
  {
    World world(Options(2));
    world.Run([&](Rank& rank) {
      Tensor x = comm_testing::Filled(rank.context(), 100, 1);
      rank.comm().AllReduce(x, ReduceOp::kSum, Range("tp", 0, 2), SiteOf("x"));
      if (rank.global_rank() == 1) kept = x;
    });
  }
  EXPECT_EQ(kept.at<double>({99}), 2.0);
}

}  // namespace
}  // namespace plumbline
