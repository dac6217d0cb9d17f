#include "parallel/pipeline/schedule_builder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "parallel/pipeline/schedule_laws.h"
#include "parallel/pipeline/simulate.h"

namespace plumbline {
namespace {

bool Legal(const ScheduleConfig& config) {
  try {
    Validate(config);
    return true;
  } catch (const InvalidArgument&) {
    return false;
  }
}

std::string Describe(const ScheduleConfig& config) {
  return fmt::format("plumbline schedule --schedule {} --pp {} --virtual {} --microbatches {}{}",
                     Name(config.kind), config.pp, config.virtual_chunks, config.microbatches,
                     config.microbatch_group_size == 0
                         ? ""
                         : fmt::format(" --microbatch-group-size-per-virtual-pipeline-stage {}",
                                       config.microbatch_group_size));
}

std::vector<ScheduleConfig> LegalConfigs(ScheduleKind kind, int pp, int most_microbatches) {
  std::vector<ScheduleConfig> configs;
  for (int v = 1; v <= 3; ++v) {
    for (int m = 1; m <= most_microbatches; ++m) {
      for (int g = 0; g <= m; ++g) {
        const ScheduleConfig config{kind, pp, v, m, g};
        if (Legal(config)) configs.push_back(config);
      }
    }
  }
  return configs;
}

using Case = std::tuple<ScheduleKind, int>;

class MakeScheduleTest : public testing::TestWithParam<Case> {};

TEST_P(MakeScheduleTest, KeepsTheLaws) {
  const auto [kind, pp] = GetParam();
  const auto configs = LegalConfigs(kind, pp, 14);
  if (kind == ScheduleKind::kInterleaved && pp == 1) {
    EXPECT_TRUE(configs.empty());
    return;
  }
  ASSERT_FALSE(configs.empty());
  for (const ScheduleConfig& config : configs) {
    const auto broken = BrokenLaws(MakeSchedule(config));
    ASSERT_TRUE(broken.empty()) << Describe(config) << ": " << broken.front();
  }
}

// The bounds are reached: none of them is looser than the schedule needs. The live activations are
// counted here once more, from the list itself.
TEST_P(MakeScheduleTest, ReachesTheBoundOfLiveActivationsOnEveryStage) {
  const auto [kind, pp] = GetParam();
  for (const ScheduleConfig& config : LegalConfigs(kind, pp, 14)) {
    const Schedule schedule = MakeSchedule(config);
    for (int stage = 0; stage < pp; ++stage) {
      int forwards = 0;
      int freed = 0;
      int most = 0;
      for (const Operation& operation : schedule.stages[static_cast<size_t>(stage)]) {
        forwards += operation.kind == OperationKind::kForward;
        freed += operation.kind == OperationKind::kBackward ||
                 operation.kind == OperationKind::kBackwardWeight;
        most = std::max(most, forwards - freed);
      }
      ASSERT_EQ(most, LiveActivationBound(config, stage)) << Describe(config) << " stage " << stage;
    }
  }
}

// Blocking batches cost no time while all operations take as long: the proof of freedom from
// deadlock (schedule_messages.h) says so. A split backward has parts of 1; a whole one is 1 as
// well.
TEST_P(MakeScheduleTest, BlockingCostsNothingInUnitTime) {
  const auto [kind, pp] = GetParam();
  const Costs unit{1, 1, SplitsBackward(kind) ? 1 : 0, 0};
  for (const ScheduleConfig& config : LegalConfigs(kind, pp, 14)) {
    const Schedule schedule = MakeSchedule(config);
    ASSERT_EQ(Simulate(schedule, unit, Transport::kRendezvous).makespan,
              Simulate(schedule, unit, Transport::kEager).makespan)
        << Describe(config);
  }
}

std::string CaseName(const testing::TestParamInfo<Case>& tested) {
  std::string name(Name(std::get<0>(tested.param)));
  std::erase(name, '-');
  return fmt::format("{}pp{}", name, std::get<1>(tested.param));
}

INSTANTIATE_TEST_SUITE_P(All, MakeScheduleTest,
                         testing::Combine(testing::ValuesIn(kAllScheduleKinds),
                                          testing::Range(1, 9)),
                         CaseName);

TEST(MakeScheduleTest, LargePipelinesKeepTheLawsToo) {
  for (const ScheduleConfig& config :
       {ScheduleConfig{ScheduleKind::kOneForwardOneBackward, 64, 1, 256},
        ScheduleConfig{ScheduleKind::kInterleaved, 32, 4, 96},
        ScheduleConfig{ScheduleKind::kInterleaved, 16, 3, 100, 28},
        ScheduleConfig{ScheduleKind::kZeroBubbleH2, 48, 1, 100}}) {
    const auto broken = BrokenLaws(MakeSchedule(config));
    EXPECT_TRUE(broken.empty()) << Describe(config) << ": " << broken.front();
  }
}

TEST(MakeScheduleTest, IsAFunctionOfItsArguments) {
  const ScheduleConfig config{ScheduleKind::kInterleaved, 4, 2, 8};
  EXPECT_EQ(MakeSchedule(config).stages, MakeSchedule(config).stages);
  EXPECT_EQ(MakeSchedule(config).config, config);
}

}  // namespace
}  // namespace plumbline
