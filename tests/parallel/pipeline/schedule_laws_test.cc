#include "parallel/pipeline/schedule_laws.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "parallel/pipeline/schedule_builder.h"

namespace plumbline {
namespace {

using testing::Contains;
using testing::HasSubstr;

constexpr ScheduleKind kOneF = ScheduleKind::kOneForwardOneBackward;

Operation& Find(Schedule& schedule, int stage, OperationKind kind, int microbatch, int chunk = 0) {
  auto& operations = schedule.stages[static_cast<size_t>(stage)];
  return *std::find_if(operations.begin(), operations.end(), [&](const Operation& candidate) {
    return candidate.kind == kind && candidate.microbatch == microbatch && candidate.chunk == chunk;
  });
}

void Erase(Schedule& schedule, int stage, const Operation& operation) {
  auto& operations = schedule.stages[static_cast<size_t>(stage)];
  operations.erase(operations.begin() + (&operation - operations.data()));
}

// Exchanges two operations of a stage, each place keeping its with_next.
void Swap(Operation& one, Operation& other) {
  std::swap(one, other);
  std::swap(one.with_next, other.with_next);
}

struct Breach {
  const char* name;
  ScheduleConfig config;
  std::function<void(Schedule&)> make;
  const char* line;  // part of one of the lines
};

class BreachTest : public testing::TestWithParam<Breach> {};

TEST_P(BreachTest, IsFound) {
  Schedule schedule = MakeSchedule(GetParam().config);
  ASSERT_TRUE(BrokenLaws(schedule).empty());
  GetParam().make(schedule);
  EXPECT_THAT(BrokenLaws(schedule), Contains(HasSubstr(GetParam().line)));
}

using Kind = OperationKind;

std::vector<Breach> BreachesOnAStage() {
  return {
      {"SkippedBackward",
       {kOneF, 2, 1, 3},
       [](Schedule& s) { Erase(s, 1, Find(s, 1, Kind::kBackward, 1)); },
       "stage 1: backward microbatch 1 chunk 0 stands 0 times instead of once"},
      {"MicrobatchTwice",
       {kOneF, 2, 1, 3},
       [](Schedule& s) { Find(s, 0, Kind::kForward, 1).microbatch = 0; },
       "stage 0: forward microbatch 0 chunk 0 stands 2 times instead of once"},
      {"WholeBackwardWhereItIsSplit",
       {ScheduleKind::kZeroBubbleH1, 2, 1, 3},
       [](Schedule& s) { Find(s, 0, Kind::kBackwardInput, 1).kind = Kind::kBackward; },
       "stage 0: backward_input microbatch 1 chunk 0 stands 0 times"},
      {"BackwardBeforeForward",
       {kOneF, 2, 1, 1},
       [](Schedule& s) { Swap(Find(s, 1, Kind::kForward, 0), Find(s, 1, Kind::kBackward, 0)); },
       "stage 1: backward microbatch 0 chunk 0 comes before forward microbatch 0 chunk 0"},
      {"WeightPartBeforeInputPart",
       {ScheduleKind::kZeroBubbleH1, 2, 1, 3},
       [](Schedule& s) {
         Swap(Find(s, 0, Kind::kBackwardInput, 1), Find(s, 0, Kind::kBackwardWeight, 1));
       },
       "comes before backward_input microbatch 1 chunk 0"},
      {"SendBeforeForward",
       {kOneF, 2, 1, 1},
       [](Schedule& s) { Swap(Find(s, 0, Kind::kForward, 0), Find(s, 0, Kind::kSendForward, 0)); },
       "stage 0: send_forward microbatch 0 chunk 0 to stage 1 chunk 0 comes before forward"},
      {"UseBeforeReceive",
       {kOneF, 2, 1, 1},
       [](Schedule& s) { Swap(Find(s, 1, Kind::kForward, 0), Find(s, 1, Kind::kRecvForward, 0)); },
       "stage 1: forward microbatch 0 chunk 0 comes before recv_forward microbatch 0 chunk 0"},
  };
}

std::vector<Breach> BreachesBetweenStages() {
  return {
      {"WrongPeer",
       {kOneF, 3, 1, 2},
       [](Schedule& s) { Find(s, 0, Kind::kSendForward, 1).peer_stage = 2; },
       "should be stage 1 chunk 0"},
      {"WrongChunkWithTwoStages",
       {ScheduleKind::kInterleaved, 2, 2, 2},
       [](Schedule& s) { Find(s, 1, Kind::kSendForward, 0).peer_chunk = 0; },
       "should be stage 0 chunk 1"},
      {"SwappedMicrobatches",
       {ScheduleKind::kGpipe, 2, 1, 3},
       [](Schedule& s) {
         Swap(Find(s, 1, Kind::kRecvForward, 0), Find(s, 1, Kind::kRecvForward, 1));
       },
       "number 0 is activation microbatch 0 chunk 0 to chunk 0 where it is sent and activation "
       "microbatch 1 chunk 0 to chunk 0 where it is received"},
      {"NothingIsSent",
       {ScheduleKind::kGpipe, 2, 1, 3},
       [](Schedule& s) { Erase(s, 0, Find(s, 0, Kind::kSendForward, 2)); },
       "stage 0 sends 2 messages to stage 1, which receives 3; number 2 is none where it is sent"},
      {"TooManyAlive",
       {ScheduleKind::kGpipe, 2, 1, 3},
       [](Schedule& s) { s.config.kind = kOneF; },
       "is the activation 3 alive, of at most 2"},
      {"GradientsInAnotherOrder",
       {ScheduleKind::kGpipe, 1, 1, 3},
       [](Schedule& s) { Swap(Find(s, 0, Kind::kBackward, 0), Find(s, 0, Kind::kBackward, 2)); },
       "adds to the weight gradients after microbatch 2"},
      {"JoinedToAComputation",
       {kOneF, 2, 1, 1},
       [](Schedule& s) { Find(s, 0, Kind::kRecvBackward, 0).with_next = true; },
       "is joined to what is no message"},
      {"NotJoined",
       {kOneF, 2, 1, 3},
       [](Schedule& s) {
         for (auto& stage : s.stages) {
           for (Operation& operation : stage) operation.with_next = false;
         }
       },
       "deadlock: stage 0 waits in send_forward"},
      {"StageMissing",
       {kOneF, 2, 1, 1},
       [](Schedule& s) { s.stages.pop_back(); },
       "there are 1 stages instead of 2"},
  };
}

constexpr auto kBreachName = [](const auto& tested) { return std::string(tested.param.name); };
INSTANTIATE_TEST_SUITE_P(OnAStage, BreachTest, testing::ValuesIn(BreachesOnAStage()), kBreachName);
INSTANTIATE_TEST_SUITE_P(BetweenStages, BreachTest, testing::ValuesIn(BreachesBetweenStages()),
                         kBreachName);

TEST(BrokenLawsTest, SaysNoMoreThanTheLimit) {
  Schedule schedule = MakeSchedule({kOneF, 2, 1, 8});
  schedule.stages[0].clear();
  EXPECT_EQ(BrokenLaws(schedule, 3).size(), 3u);
}

}  // namespace
}  // namespace plumbline
