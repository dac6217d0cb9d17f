#include "parallel/pipeline/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <tuple>

#include "base/error.h"
#include "parallel/pipeline/schedule_builder.h"

namespace plumbline {
namespace {

using testing::HasSubstr;

std::string Refusal(const ScheduleConfig& config) {
  try {
    Validate(config);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

TEST(ScheduleTest, NameAndParseAreInverse) {
  for (const ScheduleKind kind : kAllScheduleKinds) EXPECT_EQ(ParseScheduleKind(Name(kind)), kind);
}

TEST(ScheduleTest, UnknownNameIsRefusedWithTheKnownOnes) {
  try {
    ParseScheduleKind("1F1B");
    FAIL() << "accepted";
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(),
                 "--schedule must be one of naive, gpipe, 1f1b, interleaved, zb-h1, zb-h2; it is "
                 "\"1F1B\"");
  }
}

TEST(ScheduleTest, DefaultIsMegatrons) {
  EXPECT_EQ(DefaultScheduleKind(1), ScheduleKind::kOneForwardOneBackward);
  EXPECT_EQ(DefaultScheduleKind(2), ScheduleKind::kInterleaved);
}

struct Illegal {
  const char* name;
  ScheduleConfig config;
  const char* rule;
};

class IllegalScheduleTest : public testing::TestWithParam<Illegal> {};

TEST_P(IllegalScheduleTest, IsRefusedInOneLineWithTheRule) {
  const std::string refusal = Refusal(GetParam().config);
  EXPECT_THAT(refusal, HasSubstr(GetParam().rule));
  EXPECT_EQ(refusal.find('\n'), std::string::npos);
  EXPECT_THROW(MakeSchedule(GetParam().config), InvalidArgument);
}

constexpr ScheduleKind kOneF = ScheduleKind::kOneForwardOneBackward;
constexpr ScheduleKind kInter = ScheduleKind::kInterleaved;

INSTANTIATE_TEST_SUITE_P(
    All, IllegalScheduleTest,
    testing::Values(
        Illegal{"NoStage", {kOneF, 0, 1, 1}, "--pipeline-model-parallel-size must be at least 1"},
        Illegal{"NoChunk", {kOneF, 1, 0, 1}, "--num-virtual-stages-per-pipeline-rank must be"},
        Illegal{"NoMicrobatch", {kOneF, 1, 1, 0}, "number of microbatches must be at least 1"},
        Illegal{"NegativeGroup", {kInter, 2, 2, 4, -1}, "must be at least 1; it is -1"},
        Illegal{"TooManyTags", {kOneF, 1 << 15, 1, 1 << 15}, "must be at most"},
        Illegal{"ChunksWith1F1B", {kOneF, 2, 2, 4}, "needs the interleaved schedule"},
        Illegal{"ChunksWithZeroBubble",
                {ScheduleKind::kZeroBubbleH1, 2, 2, 4},
                "needs the interleaved schedule; --schedule is zb-h1"},
        Illegal{"GroupWithGpipe",
                {ScheduleKind::kGpipe, 2, 1, 4, 2},
                "--microbatch-group-size-per-virtual-pipeline-stage needs the interleaved"},
        Illegal{
            "OneStage", {kInter, 1, 2, 4}, "needs --pipeline-model-parallel-size of at least 2"},
        Illegal{"OneChunk", {kInter, 2, 1, 4}, "(with 1 it is 1f1b)"},
        Illegal{"FewerMicrobatchesThanStages",
                {kInter, 4, 2, 3},
                "at least as many microbatches as --pipeline-model-parallel-size (4); there are 3"},
        Illegal{"GroupBelowStages", {kInter, 4, 2, 8, 3}, "must lie between"},
        Illegal{"GroupAboveMicrobatches", {kInter, 4, 2, 8, 9}, "microbatches (8); it is 9"},
        Illegal{"LastGroupTooSmall",
                {kInter, 4, 2, 6},
                "the number of microbatches (6) modulo "
                "--microbatch-group-size-per-virtual-pipeline-stage (4) must be 0 or at least "
                "--pipeline-model-parallel-size (4); it is 2"}),
    [](const auto& tested) { return std::string(tested.param.name); });

TEST(ScheduleTest, LastGroupOfAtLeastPpIsLegal) {
  EXPECT_EQ(Refusal({kInter, 2, 2, 5, 3}), "");  // groups of 3 and 2
  EXPECT_EQ(Refusal({kInter, 2, 3, 5, 5}), "");  // one group
  EXPECT_EQ(Refusal({kInter, 2, 2, 6}), "");
}

TEST(ScheduleTest, TagsAreEqualAtBothEndsAndDifferBetweenTwoStages) {
  for (const ScheduleConfig& config :
       {ScheduleConfig{kInter, 2, 3, 4}, ScheduleConfig{kInter, 3, 2, 6},
        ScheduleConfig{ScheduleKind::kZeroBubbleH2, 4, 1, 5}}) {
    const Schedule schedule = MakeSchedule(config);
    // (from, to, tag) -> how often sent, received
    std::map<std::tuple<int, int, int>, std::pair<int, int>> ends;
    for (int stage = 0; stage < config.pp; ++stage) {
      for (const Operation& operation : schedule.stages[static_cast<size_t>(stage)]) {
        if (IsCompute(operation.kind)) continue;
        const int tag = MessageTag(config, stage, operation);
        EXPECT_GE(tag, 0);
        EXPECT_LT(tag, 2 * config.virtual_stages() * config.microbatches);
        if (IsSend(operation.kind)) {
          ++ends[{stage, operation.peer_stage, tag}].first;
        } else {
          ++ends[{operation.peer_stage, stage, tag}].second;
        }
      }
    }
    EXPECT_EQ(ends.size(), static_cast<size_t>(2 * (config.virtual_stages() - 1)) *
                               static_cast<size_t>(config.microbatches));
    for (const auto& [key, counts] : ends) EXPECT_EQ(counts, std::make_pair(1, 1));
  }
}

TEST(ScheduleTest, WithTwoStagesTheChunkTellsNextFromPrevious) {
  const ScheduleConfig config{kInter, 2, 2, 2};
  const Schedule schedule = MakeSchedule(config);
  // Stage 1 sends both activations and gradients to stage 0, of chunk 0 and of chunk 1.
  std::set<std::string> seen;
  for (const Operation& operation : schedule.stages[1]) {
    if (IsSend(operation.kind) && operation.microbatch == 0) seen.insert(ToString(operation));
  }
  EXPECT_THAT(seen, testing::ElementsAre("send_backward microbatch 0 chunk 0 to stage 0 chunk 0",
                                         "send_backward microbatch 0 chunk 1 to stage 0 chunk 1",
                                         "send_forward microbatch 0 chunk 0 to stage 0 chunk 1"));
}

TEST(ScheduleTest, TagOfAComputationIsOurBug) {
  EXPECT_THROW(MessageTag({kOneF, 2, 1, 2}, 0, Operation{}), Internal);
}

TEST(ScheduleTest, LiveBoundsAreTheStatedOnes) {
  EXPECT_EQ(LiveActivationBound({ScheduleKind::kNaive, 4, 1, 8}, 0), 1);
  EXPECT_EQ(LiveActivationBound({ScheduleKind::kGpipe, 4, 1, 8}, 3), 8);
  EXPECT_EQ(LiveActivationBound({kOneF, 4, 1, 8}, 1), 3);
  EXPECT_EQ(LiveActivationBound({kOneF, 4, 1, 2}, 1), 2);
  EXPECT_EQ(LiveActivationBound({kInter, 4, 2, 8}, 0), 11);
  EXPECT_EQ(LiveActivationBound({kInter, 4, 2, 8, 8}, 3), 9);
  EXPECT_EQ(LiveActivationBound({kInter, 4, 2, 4}, 0), 8);
  EXPECT_EQ(LiveActivationBound({ScheduleKind::kZeroBubbleH1, 4, 1, 8}, 2), 4);
  EXPECT_EQ(LiveActivationBound({ScheduleKind::kZeroBubbleH2, 4, 1, 8}, 2), 7);
}

}  // namespace
}  // namespace plumbline
