#include "parallel/pipeline/schedule_needs.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "parallel/pipeline/schedule_builder.h"

namespace plumbline {
namespace {

Schedule Small() { return MakeSchedule({ScheduleKind::kZeroBubbleH1, 2, 1, 2}); }

int IndexOf(const Schedule& schedule, int stage, OperationKind kind, int microbatch) {
  const auto& operations = schedule.stages[static_cast<size_t>(stage)];
  const auto found = std::find_if(operations.begin(), operations.end(), [&](const auto& candidate) {
    return candidate.kind == kind && candidate.microbatch == microbatch;
  });
  return static_cast<int>(found - operations.begin());
}

const Needs& At(const std::vector<std::vector<Needs>>& needs, int stage, int index) {
  return needs[static_cast<size_t>(stage)][static_cast<size_t>(index)];
}

TEST(ScheduleNeedsTest, PartnersAreMutual) {
  const Schedule schedule = MakeSchedule({ScheduleKind::kInterleaved, 2, 2, 4});
  const auto needs = FindNeeds(schedule);
  int messages = 0;
  for (int stage = 0; stage < 2; ++stage) {
    const auto& operations = schedule.stages[static_cast<size_t>(stage)];
    for (int i = 0; i < static_cast<int>(operations.size()); ++i) {
      if (IsCompute(operations[static_cast<size_t>(i)].kind)) continue;
      const Partner& partner = At(needs, stage, i).partner;
      ASSERT_GE(partner.stage, 0);
      const Partner& back = At(needs, partner.stage, partner.operation).partner;
      EXPECT_EQ(back.stage, stage);
      EXPECT_EQ(back.operation, i);
      ++messages;
    }
  }
  EXPECT_EQ(messages, 2 * 2 * 3 * 4);
}

TEST(ScheduleNeedsTest, ComputationsNeedTheirInputAndWhatTheySaved) {
  const Schedule schedule = Small();
  const auto needs = FindNeeds(schedule);
  const auto at = [&](int stage, OperationKind kind) { return IndexOf(schedule, stage, kind, 1); };
  EXPECT_EQ(At(needs, 0, at(0, OperationKind::kForward)).recv, kNone);
  EXPECT_EQ(At(needs, 1, at(1, OperationKind::kForward)).recv, at(1, OperationKind::kRecvForward));
  EXPECT_EQ(At(needs, 0, at(0, OperationKind::kBackwardInput)).recv,
            at(0, OperationKind::kRecvBackward));
  EXPECT_EQ(At(needs, 1, at(1, OperationKind::kBackwardInput)).recv, kNone);
  EXPECT_EQ(At(needs, 1, at(1, OperationKind::kBackwardInput)).local,
            at(1, OperationKind::kForward));
  EXPECT_EQ(At(needs, 0, at(0, OperationKind::kBackwardWeight)).local,
            at(0, OperationKind::kBackwardInput));
  EXPECT_EQ(At(needs, 0, at(0, OperationKind::kSendForward)).local, at(0, OperationKind::kForward));
}

TEST(ScheduleNeedsTest, WhatIsNotThereIsMissing) {
  Schedule schedule = Small();
  const int send = IndexOf(schedule, 0, OperationKind::kSendForward, 1);
  schedule.stages[0].erase(schedule.stages[0].begin() + send);
  const int recv = IndexOf(schedule, 1, OperationKind::kRecvForward, 1);
  EXPECT_EQ(At(FindNeeds(schedule), 1, recv).partner.stage, kMissing);
}

TEST(ScheduleNeedsTest, MessageToTheWrongPeerDoesNotHideTheRightOne) {
  Schedule schedule = MakeSchedule({ScheduleKind::kGpipe, 3, 1, 1});
  // Stage 0 sends to stage 2 what stage 1 also sends there, under the same tag.
  Operation& wrong =
      schedule.stages[0][static_cast<size_t>(IndexOf(schedule, 0, OperationKind::kSendForward, 0))];
  wrong.peer_stage = 2;
  const auto needs = FindNeeds(schedule);
  EXPECT_EQ(At(needs, 2, IndexOf(schedule, 2, OperationKind::kRecvForward, 0)).partner.stage, 1);
  EXPECT_EQ(At(needs, 1, IndexOf(schedule, 1, OperationKind::kRecvForward, 0)).partner.stage,
            kMissing);
}

TEST(ScheduleNeedsTest, OperationOutOfRangeIsOurBug) {
  Schedule schedule = Small();
  schedule.stages[0][0].microbatch = 2;
  EXPECT_THROW(FindNeeds(schedule), Internal);
}

}  // namespace
}  // namespace plumbline
