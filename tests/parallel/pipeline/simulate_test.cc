#include "parallel/pipeline/simulate.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

#include "base/error.h"
#include "parallel/pipeline/schedule_builder.h"

namespace plumbline {
namespace {

using testing::ElementsAre;

constexpr ScheduleKind kOneF = ScheduleKind::kOneForwardOneBackward;
constexpr ScheduleKind kH1 = ScheduleKind::kZeroBubbleH1;
constexpr ScheduleKind kH2 = ScheduleKind::kZeroBubbleH2;

bool Legal(const ScheduleConfig& config) {
  try {
    Validate(config);
    return true;
  } catch (const InvalidArgument&) {
    return false;
  }
}

Operation& Find(Schedule& schedule, int stage, OperationKind kind, int microbatch) {
  auto& operations = schedule.stages[static_cast<size_t>(stage)];
  return *std::find_if(operations.begin(), operations.end(), [&](const Operation& candidate) {
    return candidate.kind == kind && candidate.microbatch == microbatch;
  });
}

// Visits every legal configuration and cost of a small world.
template <class Visit>
void Sweep(ScheduleKind kind, int most_pp, int most_microbatches, const Visit& visit) {
  for (int p = 1; p <= most_pp; ++p) {
    for (int m = 1; m <= most_microbatches; ++m) {
      for (int v = 1; v <= 3; ++v) {
        for (int g = 0; g <= m; ++g) {
          const ScheduleConfig config{kind, p, v, m, g};
          if (!Legal(config)) continue;
          const Schedule schedule = MakeSchedule(config);
          for (int64_t costs = 0; costs < 27; ++costs) {
            visit(schedule, Costs{1 + costs % 3, 1 + costs / 3 % 3, 1 + costs / 9, 0});
          }
        }
      }
    }
  }
}

std::string Describe(const Schedule& schedule, const Costs& costs) {
  const ScheduleConfig& config = schedule.config;
  return fmt::format("{} pp {} virtual {} microbatches {} group {}, costs {} {} {}",
                     Name(config.kind), config.pp, config.virtual_chunks, config.microbatches,
                     config.group_size(), costs.forward, costs.backward_input,
                     costs.backward_weight);
}

class BubbleTest : public testing::TestWithParam<ScheduleKind> {};

TEST_P(BubbleTest, EqualsTheFormulaWhereThereIsOne) {
  int compared = 0;
  Sweep(GetParam(), 6, 13, [&](const Schedule& schedule, const Costs& costs) {
    const auto formula = BubbleFormula(schedule.config, costs);
    if (!formula.has_value()) return;
    ++compared;
    ASSERT_EQ(Simulate(schedule, costs).bubble, *formula) << Describe(schedule, costs);
  });
  EXPECT_GT(compared, 300);
}

// The span of the stage that idles most is the whole step, so that the bubble is the idle share of
// all stages' time; zero-bubble schedules are the exception.
TEST_P(BubbleTest, IsTheIdleShareOfTheStepUnlessTheBackwardIsSplit) {
  if (SplitsBackward(GetParam())) {
    const Schedule schedule = MakeSchedule({GetParam(), 4, 1, 8});
    const Simulation simulation = Simulate(schedule, {});
    EXPECT_GT(simulation.makespan, simulation.stage_span.back());
    return;
  }
  Sweep(GetParam(), 5, 8, [&](const Schedule& schedule, const Costs& costs) {
    const Simulation simulation = Simulate(schedule, costs);
    const int64_t all = simulation.makespan * schedule.config.pp;
    const int64_t busy =
        std::accumulate(simulation.busy.begin(), simulation.busy.end(), int64_t{0});
    ASSERT_EQ(simulation.bubble, MakeFraction(all - busy, all)) << Describe(schedule, costs);
  });
}

TEST_P(BubbleTest, DoesNotDependOnTheUnitOfTheCosts) {
  const int v = GetParam() == ScheduleKind::kInterleaved ? 2 : 1;
  const Schedule schedule = MakeSchedule({GetParam(), 4, v, 8});
  EXPECT_EQ(Simulate(schedule, {3, 2, 1, 0}).bubble, Simulate(schedule, {21, 14, 7, 0}).bubble);
}

INSTANTIATE_TEST_SUITE_P(All, BubbleTest, testing::ValuesIn(kAllScheduleKinds),
                         [](const auto& tested) {
                           std::string name(Name(tested.param));
                           std::erase(name, '-');
                           return name;
                         });

TEST(BubbleFormulaTest, KnownValues) {
  EXPECT_EQ(BubbleFormula({ScheduleKind::kNaive, 4, 1, 8}, {}), (Fraction{3, 4}));
  EXPECT_EQ(BubbleFormula({ScheduleKind::kGpipe, 4, 1, 8}, {}), (Fraction{3, 11}));
  EXPECT_EQ(BubbleFormula({kOneF, 4, 1, 8}, {}), (Fraction{3, 11}));
  EXPECT_EQ(BubbleFormula({ScheduleKind::kInterleaved, 4, 2, 8}, {}), (Fraction{3, 19}));
  // 8 microbatches of 3, idle 3 * (1 + 1 - 1) = 3.
  EXPECT_EQ(BubbleFormula({kH1, 4, 1, 8}, {}), (Fraction{1, 9}));
  EXPECT_EQ(BubbleFormula({kH2, 4, 1, 8}, {}), (Fraction{0, 1}));
  // 8 microbatches of 6, idle 3 * (3 + 2 - 2 * 1) = 9.
  EXPECT_EQ(BubbleFormula({kH2, 4, 1, 8}, {3, 2, 1, 0}), (Fraction{3, 19}));
}

// Outside its condition a formula is not offered, because there it is wrong.
TEST(BubbleFormulaTest, HoldsNoFurtherThanStated) {
  const auto idle = [](const ScheduleConfig& config, const Costs& costs) {
    const Simulation simulation = Simulate(MakeSchedule(config), costs);
    return *std::max_element(simulation.stage_span.begin(), simulation.stage_span.end()) -
           simulation.busy.front();
  };
  EXPECT_FALSE(BubbleFormula({kH1, 4, 1, 3}, {}).has_value());
  EXPECT_NE(idle({kH1, 4, 1, 3}, {}), 3);
  EXPECT_FALSE(BubbleFormula({kH1, 4, 1, 8}, {1, 2, 2, 0}).has_value());
  EXPECT_NE(idle({kH1, 4, 1, 8}, {1, 2, 2, 0}), 3);
  EXPECT_FALSE(BubbleFormula({kH2, 4, 1, 6}, {}).has_value());
  EXPECT_NE(idle({kH2, 4, 1, 6}, {}), 0);
  EXPECT_FALSE(BubbleFormula({kH2, 4, 1, 8}, {1, 2, 2, 0}).has_value());
  EXPECT_NE(idle({kH2, 4, 1, 8}, {1, 2, 2, 0}), 0);
  EXPECT_FALSE(BubbleFormula({kOneF, 4, 1, 8}, {1, 1, 1, 1}).has_value());
  EXPECT_NE(Simulate(MakeSchedule({kOneF, 4, 1, 8}), {1, 1, 1, 1}).bubble, (Fraction{3, 11}));
}

TEST(SimulateTest, TimesOfASmallStep) {
  // Stage 0: F0 [0,1) F1 [1,2) B0 [4,6) B1 [7,9); stage 1: F0 [1,2) B0 [2,4) F1 [4,5) B1 [5,7).
  const Schedule schedule = MakeSchedule({kOneF, 2, 1, 2});
  const Simulation simulation = Simulate(schedule, {});
  std::vector<std::vector<int64_t>> starts(2);
  for (size_t stage = 0; stage < 2; ++stage) {
    for (size_t i = 0; i < schedule.stages[stage].size(); ++i) {
      if (IsCompute(schedule.stages[stage][i].kind)) {
        starts[stage].push_back(simulation.spans[stage][i].start);
      }
    }
  }
  EXPECT_THAT(starts[0], ElementsAre(0, 1, 4, 7));
  EXPECT_THAT(starts[1], ElementsAre(1, 2, 4, 5));
  EXPECT_EQ(simulation.makespan, 9);
  EXPECT_THAT(simulation.busy, ElementsAre(6, 6));
  EXPECT_THAT(simulation.stage_span, ElementsAre(9, 6));
  EXPECT_THAT(simulation.peak_live, ElementsAre(2, 1));
  EXPECT_EQ(simulation.bubble, (Fraction{1, 3}));
}

TEST(SimulateTest, CommunicationDelaysTheReceiver) {
  // F on stage 0, a message, F and B on stage 1, a message, B on stage 0.
  const Schedule schedule = MakeSchedule({kOneF, 2, 1, 1});
  for (const Transport transport : {Transport::kEager, Transport::kRendezvous}) {
    EXPECT_EQ(Simulate(schedule, {1, 1, 1, 5}, transport).makespan, 1 + 5 + 1 + 2 + 5 + 2);
  }
}

TEST(SimulateTest, WeightPartsFillTheBubble) {
  const auto makespan = [](ScheduleKind kind) {
    return Simulate(MakeSchedule({kind, 4, 1, 8}), {}).makespan;
  };
  EXPECT_EQ(makespan(kOneF), (8 + 3) * 3);
  EXPECT_EQ(makespan(kH1), 8 * 3 + 3);
}

TEST(SimulateTest, CrossedSendsAreADeadlockWithItsCycle) {
  Schedule schedule = MakeSchedule({kOneF, 2, 1, 2});
  for (auto& stage : schedule.stages) {
    for (Operation& operation : stage) operation.with_next = false;
  }
  EXPECT_TRUE(Simulate(schedule, {}, Transport::kEager).ran());
  const Simulation simulation = Simulate(schedule, {}, Transport::kRendezvous);
  ASSERT_EQ(simulation.stuck.size(), 2u);
  EXPECT_EQ(
      DescribeStuck(schedule, simulation),
      "deadlock: stage 0 waits in send_forward microbatch 1 chunk 0 to stage 1 chunk 0; stage "
      "1 waits in send_backward microbatch 0 chunk 0 to stage 0 chunk 0; which closes the "
      "cycle");
}

TEST(SimulateTest, CycleLeavesOutTheStagesThatOnlyWaitForIt) {
  Schedule schedule = MakeSchedule({kOneF, 4, 1, 4});
  for (size_t stage = 2; stage < 4; ++stage) {
    for (Operation& operation : schedule.stages[stage]) operation.with_next = false;
  }
  const Simulation simulation = Simulate(schedule, {}, Transport::kRendezvous);
  ASSERT_EQ(simulation.stuck.size(), 2u) << DescribeStuck(schedule, simulation);
  for (const Wait& wait : simulation.stuck) EXPECT_GE(wait.stage, 2);
  EXPECT_EQ(simulation.stuck.back().on_stage, simulation.stuck.front().stage);
}

TEST(SimulateTest, ComputationsInACycleAreADeadlockEvenWithEagerSends) {
  Schedule schedule = MakeSchedule({ScheduleKind::kGpipe, 2, 1, 2});
  // Stage 0 wants the gradient of microbatch 0 before it computes microbatch 1, and stage 1 gives
  // none before it has both.
  auto& stage = schedule.stages[0];
  const auto forward =
      std::find(stage.begin(), stage.end(), Find(schedule, 0, OperationKind::kForward, 1));
  const auto backward =
      std::find(stage.begin(), stage.end(), Find(schedule, 0, OperationKind::kBackward, 0));
  std::rotate(forward, backward, backward + 1);
  const auto recv =
      std::find(stage.begin(), stage.end(), Find(schedule, 0, OperationKind::kRecvBackward, 0));
  std::rotate(std::find(stage.begin(), stage.end(), Find(schedule, 0, OperationKind::kBackward, 0)),
              recv, recv + 1);
  const Simulation simulation = Simulate(schedule, {});
  EXPECT_EQ(DescribeStuck(schedule, simulation),
            "deadlock: stage 0 waits in recv_backward microbatch 0 chunk 0 from stage 1 chunk 0; "
            "stage 1 waits in recv_forward microbatch 1 chunk 0 from stage 0 chunk 0; which closes "
            "the cycle");
}

TEST(SimulateTest, MissingSendIsNamed) {
  Schedule schedule = MakeSchedule({ScheduleKind::kGpipe, 3, 1, 2});
  auto& stage = schedule.stages[1];
  stage.erase(
      std::find(stage.begin(), stage.end(), Find(schedule, 1, OperationKind::kSendForward, 1)));
  const Simulation simulation = Simulate(schedule, {});
  ASSERT_FALSE(simulation.ran());
  EXPECT_EQ(simulation.stuck.back().on_stage, -1);
  EXPECT_THAT(DescribeStuck(schedule, simulation),
              testing::HasSubstr("stage 2 waits in recv_forward microbatch 1 chunk 0 from stage 1 "
                                 "chunk 0, which stage 1 never sends"));
}

TEST(SimulateTest, BackwardWithoutForwardIsNamed) {
  Schedule schedule = MakeSchedule({ScheduleKind::kNaive, 1, 1, 2});
  auto& stage = schedule.stages[0];
  std::swap(stage[0], stage[1]);
  EXPECT_EQ(DescribeStuck(schedule, Simulate(schedule, {})),
            "deadlock: stage 0 waits in backward microbatch 0 chunk 0 for what comes later in its "
            "own list");
  stage.erase(stage.begin() + 1);
  EXPECT_EQ(DescribeStuck(schedule, Simulate(schedule, {})),
            "stuck: stage 0 waits in backward microbatch 0 chunk 0 for what is not in its list");
}

TEST(SimulateTest, RunsToTheEndHaveNothingToDescribe) {
  const Schedule schedule = MakeSchedule({kOneF, 2, 1, 2});
  EXPECT_EQ(DescribeStuck(schedule, Simulate(schedule, {})), "");
}

TEST(SimulateTest, BadCostsAreRefused) {
  const Schedule schedule = MakeSchedule({kOneF, 2, 1, 2});
  EXPECT_THROW(Simulate(schedule, {-1, 1, 1, 0}), InvalidArgument);
  EXPECT_THROW(Simulate(schedule, {1, 1, 1, -1}), InvalidArgument);
  EXPECT_THROW(Simulate(schedule, {std::numeric_limits<int64_t>::max(), 1, 1, 0}), InvalidArgument);
  const int64_t most = std::numeric_limits<int64_t>::max() / 8 / 3;
  EXPECT_NO_THROW(Simulate(schedule, {most, most, most, 0}));
}

TEST(SimulateTest, FreeStepHasNoBubble) {
  const Simulation simulation = Simulate(MakeSchedule({kOneF, 2, 1, 2}), {0, 0, 0, 0});
  EXPECT_EQ(simulation.bubble, (Fraction{0, 1}));
  EXPECT_FALSE(BubbleFormula({kOneF, 2, 1, 2}, {0, 0, 0, 0}).has_value());
}

}  // namespace
}  // namespace plumbline
