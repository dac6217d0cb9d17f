// Every match state, planted with a decorator in a running world, beside a clean twin that is
// silent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "fingerprint/matcher.h"
#include "parallel/comm/mutation.h"
#include "parallel/comm/world.h"
#include "tests/parallel/comm/comm_testing.h"

namespace plumbline {
namespace {

using comm_testing::Filled;
using comm_testing::GroupOf;
using comm_testing::Options;
using comm_testing::SiteOf;
using comm_testing::Texts;
using testing::HasSubstr;

// A tp 2 x dp 2 world: rank = tp + 2 * dp. A step reduces activations over tp and gradients over
// dp, gathers, scatters, broadcasts, exchanges and sends.
Group TpGroup(int rank) { return GroupOf("tp", {rank / 2 * 2, rank / 2 * 2 + 1}); }
Group DpGroup(int rank) { return GroupOf("dp", {rank % 2, rank % 2 + 2}); }

void Program(Rank& rank, Communicator& comm) {
  const int me = rank.global_rank();
  const Group tp = TpGroup(me);
  const Group dp = DpGroup(me);
  const Context& context = rank.context();
  const int microbatch = me / 2;
  for (const char* layer : {"layer0", "layer1", "layer2"}) {
    Tensor x = Filled(context, 4, me);
    comm.AllReduce(x, ReduceOp::kSum, tp, SiteOf(layer, microbatch));
    Tensor y = comm.ReduceScatter(context, x, ReduceOp::kSum, tp, SiteOf("scatter", microbatch));
    x = comm.AllGather(context, y, tp, SiteOf("gather", microbatch));
  }
  for (const char* weight : {"w0", "w1", "w2", "w3"}) {
    Tensor grad = Filled(context, 4, me);
    comm.AllReduce(grad, ReduceOp::kAvg, dp, SiteOf(weight));
  }
  Tensor seed = Filled(context, 1, me);
  comm.Broadcast(seed, 0, dp, SiteOf("seed"));
  const Tensor tokens = Filled(context, 5, me);
  const bool first = me % 2 == 0;
  comm.AllToAllV(context, tokens, first ? std::vector<int64_t>{2, 3} : std::vector<int64_t>{1, 4},
                 first ? std::vector<int64_t>{2, 1} : std::vector<int64_t>{3, 4}, tp,
                 SiteOf("tokens", microbatch));
  const Group world = comm_testing::Range("world", 0, 4);
  Tensor hidden = Filled(context, 3, me);
  if (me == 0) comm.Send(hidden, 2, 5, world, SiteOf("hidden"));
  if (me == 2) comm.Recv(hidden, 0, 5, world, SiteOf("hidden"));
  comm.Barrier(world, SiteOf("end"));
}

struct Plant {
  std::string name;
  std::function<MutationRule()> rule;  // a fresh one for each rank
  // What the first finding says.
  std::string state;
  std::vector<int> ranks;
  std::string tensor;
  std::string group;
  // In round robin: no sibling group has made the call yet, or can know; both members are named.
  bool unknown = false;
};

CallPredicate Calls(int rank, std::string tensor) {
  return OnRank(rank, [tensor = std::move(tensor)](const CollectiveCall& call, int) {
    return call.site.tensor == tensor;
  });
}

CallPredicate AnyOf(int rank, std::string a, std::string b) {
  return OnRank(rank, [a = std::move(a), b = std::move(b)](const CollectiveCall& call, int) {
    return call.site.tensor == a || call.site.tensor == b;
  });
}

std::function<MutationRule()> Change(int rank, std::string tensor,
                                     std::function<void(CollectiveCall&)> change) {
  return [=] { return ChangeCall(Calls(rank, tensor), change); };
}

// Members say different things about one call.
std::vector<Plant> CallPlants() {
  return {
      {"type",
       Change(1, "scatter",
              [](CollectiveCall& call) {
                call.op = CollectiveOp::kAllReduce;
                call.output = call.input;
              }),
       "op differs",
       {1},
       "scatter",
       "tp{0,1}"},
      {"size",
       Change(3, "layer1",
              [](CollectiveCall& call) { call.input = call.output = call.input.Slice(0, 0, 3); }),
       "size differs",
       {3},
       "layer1",
       "tp{2,3}"},
      {"split",
       Change(2, "tokens",
              [](CollectiveCall& call) {
                call.output = Tensor::Empty(Context(), DType::kF64, {6});
                call.output_splits = {2, 4};
              }),
       "split differs",
       {2},
       "tokens",
       "tp{2,3}",
       /*unknown=*/true},
      {"dtype",
       Change(1, "w1",
              [](CollectiveCall& call) {
                call.input = call.output = Tensor::Zeros(Context(), DType::kF32, {4});
              }),
       "dtype differs",
       {1},
       "w1",
       "dp{1,3}"},
      {"redop",
       [] { return ChangeReduceOp(Calls(2, "w2"), ReduceOp::kSum); },
       "redop differs",
       {2},
       "w2",
       "dp{0,2}"},
      {"root",
       Change(3, "seed", [](CollectiveCall& call) { call.peer = 1; }),
       "root differs",
       {3},
       "seed",
       "dp{1,3}"}};
}

// Calls that go elsewhere, come in another order, or move something else.
std::vector<Plant> PlacePlants() {
  return {
      {"tag",
       Change(2, "hidden", [](CollectiveCall& call) { call.tag = 6; }),
       "peer/tag differs",
       {0, 2},
       "hidden",
       "world{0,1,2,3}"},
      {"peer",
       Change(2, "hidden", [](CollectiveCall& call) { call.peer = 1; }),
       "peer/tag differs",
       {0, 2},
       "hidden",
       "world{0,1,2,3}"},
      {"membership",
       [] { return ChangeGroup(Calls(1, "layer1"), [](const Group&) { return DpGroup(1); }); },
       "membership differs",
       {1},
       "layer1",
       "tp{0,1}"},
      {"stranger",
       [] { return ChangeGroup(Calls(1, "layer1"), [](const Group&) { return DpGroup(0); }); },
       "membership differs",
       {1},
       "layer1",
       "dp{0,2}"},
      {"order",
       [] { return SwapWithNext(AnyOf(3, "w1", "w2")); },
       "order differs",
       {3},
       "w1",
       "dp{1,3}"},
      {"missing", [] { return Skip(Calls(1, "w1")); }, "missing", {1}, "w1", "dp{1,3}"},
      {"missinglast", [] { return Skip(Calls(0, "layer2")); }, "", {0}, "layer2", "tp{0,1}"},
      {"logicalid",
       Change(2, "w1", [](CollectiveCall& call) { call.site.tensor = "other"; }),
       "logical id differs",
       {2},
       "w1",
       "dp{0,2}"},
      {"microbatch",
       Change(2, "layer1", [](CollectiveCall& call) { call.site.microbatch = 7; }),
       "logical id differs",
       {2},
       "layer1",
       "tp{2,3}",
       /*unknown=*/true},
      {"messagesize",
       Change(
           2, "hidden",
           [](CollectiveCall& call) { call.output = Tensor::Empty(Context(), DType::kF64, {2}); }),
       "size differs",
       {0, 2},
       "hidden",
       "world{0,1,2,3}"},
      {"messageid",
       Change(2, "hidden", [](CollectiveCall& call) { call.site.tensor = "other"; }),
       "logical id differs",
       {0, 2},
       "hidden",
       "world{0,1,2,3}"},
  };
}

std::vector<Plant> Plants() {
  std::vector<Plant> plants = CallPlants();
  for (Plant& plant : PlacePlants()) plants.push_back(std::move(plant));
  return plants;
}

class MatchingTest : public testing::TestWithParam<int> {
 protected:
  static WorldResult RunPlanted(const Plant& plant, WorldOptions options) {
    World world(options);
    return world.Run([&](Rank& rank) {
      MutationCommunicator comm(rank.comm(), {plant.rule()});
      Program(rank, comm);
    });
  }
  Plant plant() const { return Plants()[static_cast<size_t>(GetParam())]; }
};

TEST_P(MatchingTest, PlantedDifferenceIsNamed) {
  const Plant planted = plant();
  for (uint64_t seed = 0; seed < 6; ++seed) {
    WorldOptions options = Options(4);
    options.policy = seed == 0 ? SchedulePolicy::kRoundRobin : SchedulePolicy::kRandom;
    options.seed = seed;
    const WorldResult result = RunPlanted(planted, options);
    ASSERT_FALSE(result.findings.empty()) << "seed " << seed;
    const Finding& finding = result.findings[0];
    EXPECT_FALSE(result.completed) << finding.message;
    EXPECT_EQ(finding.kind, FindingClass::kCollectiveMismatch) << finding.message;
    EXPECT_THAT(finding.message, HasSubstr(planted.state)) << "seed " << seed;
    // With two members it may be unknown who is wrong: then both are named.
    EXPECT_THAT(finding.ranks, testing::IsSupersetOf(planted.ranks)) << finding.message;
    const bool either = planted.name == "order" && finding.ranks.size() > planted.ranks.size();
    EXPECT_TRUE(either || finding.site.tensor == planted.tensor) << finding.message;
    EXPECT_EQ(finding.group, planted.group) << finding.message;
    EXPECT_NE(finding.actual, finding.reference);
  }
}

TEST_P(MatchingTest, RanksAreExactWhenTheOtherReplicaIsAWitness) {
  // Round robin: the sibling group is as far as this one, and tells which side is wrong.
  const WorldResult result = RunPlanted(plant(), Options(4));
  ASSERT_FALSE(result.findings.empty());
  const std::vector<int> expected = plant().unknown ? std::vector<int>{2, 3} : plant().ranks;
  EXPECT_EQ(result.findings[0].ranks, expected) << Texts(result.findings);
}

TEST_P(MatchingTest, ContinueGoesOnAndStillEnds) {
  WorldOptions options = Options(4);
  options.on_mismatch = OnMismatch::kContinue;
  const Plant planted = plant();
  if (planted.name == "stranger") {
    // There is nothing to join: the call itself is refused.
    EXPECT_THROW(RunPlanted(planted, options), Error);
    return;
  }
  const WorldResult result = RunPlanted(planted, options);
  ASSERT_FALSE(result.findings.empty());
  // Either the calls fit and the ranks get to the end, or they hang and that is told as well.
  EXPECT_EQ(result.completed, result.findings.back().kind != FindingClass::kDeadlock)
      << Texts(result.findings);
}

TEST_P(MatchingTest, WithoutTheFingerprintNothingIsCorrupted) {
  WorldOptions options = Options(4);
  options.fingerprint = false;
  const Plant planted = plant();
  if (planted.name == "stranger") {
    EXPECT_THROW(RunPlanted(planted, options), Error);
    return;
  }
  const WorldResult result = RunPlanted(planted, options);
  EXPECT_EQ(result.completed, result.findings.empty()) << Texts(result.findings);
  EXPECT_TRUE(result.records.empty());
}

INSTANTIATE_TEST_SUITE_P(Plants, MatchingTest, testing::Range(0, static_cast<int>(Plants().size())),
                         [](const auto& info) {
                           return Plants()[static_cast<size_t>(info.param)].name;
                         });

TEST(MatchingTwin, TheUnchangedProgramIsSilent) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    WorldOptions options = Options(4);
    options.policy = SchedulePolicy::kRandom;
    options.seed = seed;
    World world(options);
    const WorldResult result = world.Run([&](Rank& rank) {
      MutationCommunicator comm(rank.comm(), {});
      Program(rank, comm);
    });
    EXPECT_TRUE(result.completed);
    EXPECT_TRUE(result.findings.empty()) << Texts(result.findings);
    EXPECT_EQ(result.records.size(), 4u * (9 + 4 + 1 + 1 + 1) + 2);
    for (const CollectiveRecord& record : result.records) EXPECT_GE(record.completion_time, 0);
  }
}

TEST(MatchingMajority, TheOddOneOutIsNamedWhateverTheOrderOfArrival) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    WorldOptions options = Options(5);
    options.policy = SchedulePolicy::kRandom;
    options.seed = seed;
    World world(options);
    const WorldResult result = world.Run([&](Rank& rank) {
      Tensor x = Filled(rank.context(), 4, 1);
      const ReduceOp op = rank.global_rank() == 3 ? ReduceOp::kMax : ReduceOp::kSum;
      rank.comm().AllReduce(x, op, comm_testing::Range("dp", 0, 5), SiteOf("x"));
    });
    ASSERT_EQ(result.findings.size(), 1u);
    EXPECT_THAT(result.findings[0].ranks, testing::ElementsAre(3));
    EXPECT_THAT(result.findings[0].message,
                HasSubstr("rank 3 seq 0 dp{0,1,2,3,4}: all_reduce max f64[4] step 1 forward x "
                          "value; rank "));
    EXPECT_THAT(result.findings[0].message,
                HasSubstr(": all_reduce sum f64[4] step 1 forward x value (redop differs)"));
  }
}

TEST(MatchingValue, AStrayWriteIntoAPeersResultIsFound) {
  for (const bool planted : {false, true}) {
    World world(Options(4));
    double* target = nullptr;
    const WorldResult result = world.Run([&](Rank& rank) {
      Tensor x = Filled(rank.context(), 4, 1);
      if (rank.global_rank() == 1) target = x.data<double>();
      rank.comm().AllReduce(x, ReduceOp::kSum, comm_testing::Range("dp", 0, 4), SiteOf("x"));
      // Rank 3 comes last, so that its peers' results are there before they run again.
      if (planted && rank.global_rank() == 3) target[2] = 0;
      rank.comm().Barrier(comm_testing::Range("dp", 0, 4), SiteOf("b"));
    });
    if (!planted) {
      EXPECT_TRUE(result.findings.empty()) << Texts(result.findings);
      continue;
    }
    ASSERT_EQ(result.findings.size(), 1u) << Texts(result.findings);
    EXPECT_THAT(result.findings[0].message, HasSubstr("(value differs)"));
    EXPECT_THAT(result.findings[0].ranks, testing::ElementsAre(1));
  }
}

TEST(MatchingMissing, AnAsynchronousCallThatNobodyJoinsIsToldAtTheEnd) {
  World world(Options(2));
  const WorldResult result = world.Run([&](Rank& rank) {
    Tensor x = Filled(rank.context(), 4, 1);
    if (rank.global_rank() == 0) return;
    rank.comm().AllReduceAsync(x, ReduceOp::kSum, comm_testing::Range("dp", 0, 2), SiteOf("x"));
    rank.comm().SendAsync(x, 0, 4, comm_testing::Range("dp", 0, 2), SiteOf("y"));
  });
  EXPECT_TRUE(result.completed);
  ASSERT_EQ(result.findings.size(), 2u) << Texts(result.findings);
  for (const Finding& finding : result.findings) {
    EXPECT_EQ(finding.kind, FindingClass::kCollectiveMismatch);
    EXPECT_THAT(finding.ranks, testing::ElementsAre(0));
    EXPECT_THAT(finding.message, HasSubstr("rank 0: no such call (missing)"));
  }
}

TEST(MatchingStop, ADifferenceComesBeforeTheExceptionThatItCauses) {
  World world(Options(3));
  const WorldResult result = world.Run([&](Rank& rank) {
    Tensor x = Filled(rank.context(), 4, 1);
    const bool odd = rank.global_rank() == 1;
    if (rank.global_rank() == 2) {
      rank.Yield();
      rank.Yield();
      throw std::runtime_error("a consequence, for all we know");
    }
    rank.comm().AllReduce(x, odd ? ReduceOp::kMax : ReduceOp::kSum, comm_testing::Range("dp", 0, 3),
                          SiteOf("x"));
  });
  EXPECT_FALSE(result.completed);
  ASSERT_EQ(result.findings.size(), 1u);
  EXPECT_THAT(result.findings[0].message, HasSubstr("redop differs"));
}

TEST(MatchingContinue, FindingsOfOneGroupAreLimited) {
  WorldOptions options = Options(2);
  options.on_mismatch = OnMismatch::kContinue;
  World world(options);
  const WorldResult result = world.Run([&](Rank& rank) {
    Tensor x = Filled(rank.context(), 4, 1);
    for (int i = 0; i < 100; ++i) {
      const ReduceOp op = rank.global_rank() == 0 ? ReduceOp::kMax : ReduceOp::kSum;
      rank.comm().AllReduce(x, op, comm_testing::Range("dp", 0, 2), SiteOf("x"));
    }
  });
  EXPECT_TRUE(result.completed);
  EXPECT_EQ(result.findings.size(), static_cast<size_t>(Matcher::kMaxFindingsPerGroup));
}

}  // namespace
}  // namespace plumbline
