#include "parallel/pipeline/schedule_messages.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "parallel/pipeline/schedule_order.h"

namespace plumbline {
namespace {

// One stage's list: "F0 sF0 | rB0": s and r for send and receive, + joins a batch.
std::string Stage(const ScheduleConfig& config, int stage) {
  const auto stages = WithMessages(config, ComputeOrder(config));
  std::string text;
  bool joined = false;
  for (const Operation& operation : stages[static_cast<size_t>(stage)]) {
    static constexpr const char* kNames[] = {"F", "B", "I", "W", "sF", "rF", "sB", "rB"};
    if (!text.empty()) text += joined ? "+" : " ";
    joined = operation.with_next;
    text += fmt::format("{}{}", kNames[static_cast<int>(operation.kind)], operation.microbatch);
    if (config.virtual_chunks > 1) text += fmt::format(".{}", operation.chunk);
  }
  return text;
}

TEST(ScheduleMessagesTest, OneForwardOneBackwardJoinsWhereMegatronDoes) {
  const ScheduleConfig config{ScheduleKind::kOneForwardOneBackward, 3, 1, 4};
  // Warm-up: receive, forward, send. Steady state: send the activation and receive the gradient in
  // one, send the gradient and receive the activation in one. Cool-down: receive, backward, send.
  EXPECT_EQ(Stage(config, 1),
            "rF0 F0 sF0+rF1 F1 sF1+rB0 B0 sB0+rF2 F2 sF2+rB1 B1 sB1+rF3 F3 sF3+rB2 B2 sB2+rB3 B3 "
            "sB3");
  EXPECT_EQ(Stage(config, 0), "F0 sF0 F1 sF1 F2 sF2+rB0 B0 F3 sF3+rB1 B1 rB2 B2 rB3 B3");
  EXPECT_EQ(Stage(config, 2), "rF0 F0 B0 sB0+rF1 F1 B1 sB1+rF2 F2 B2 sB2+rF3 F3 B3 sB3");
}

TEST(ScheduleMessagesTest, WhatStandsBetweenTwoComputationsIsOneBatch) {
  EXPECT_EQ(Stage({ScheduleKind::kNaive, 2, 1, 2}, 0), "F0 sF0+rB0 B0 F1 sF1+rB1 B1");
  EXPECT_EQ(Stage({ScheduleKind::kNaive, 2, 1, 2}, 1), "rF0 F0 B0 sB0+rF1 F1 B1 sB1");
}

TEST(ScheduleMessagesTest, FirstStageReceivesAheadWhenTheGroupIsLargerThanPp) {
  // Stage 1 hands microbatch 0 of chunk 0 on while stage 0 is still busy with the rest of the
  // group.
  const std::string stage = Stage({ScheduleKind::kInterleaved, 2, 2, 4, 4}, 0);
  const size_t received = stage.find("rF0.1");
  ASSERT_NE(received, std::string::npos) << stage;
  EXPECT_LT(received, stage.find("F3.0")) << stage;
}

TEST(ScheduleMessagesTest, OneStageHasNoMessages) {
  EXPECT_EQ(Stage({ScheduleKind::kZeroBubbleH2, 1, 1, 2}, 0), "F0 I0 W0 F1 I1 W1");
}

TEST(ScheduleMessagesTest, ComputationsThatWaitInACycleAreOurBug) {
  const ScheduleConfig config{ScheduleKind::kNaive, 2, 1, 1};
  auto orders = ComputeOrder(config);
  std::swap(orders[0][0], orders[0][1]);  // the backward before its forward
  EXPECT_THROW(WithMessages(config, orders), Internal);
}

}  // namespace
}  // namespace plumbline
