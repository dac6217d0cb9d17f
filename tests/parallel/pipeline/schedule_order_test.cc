#include "parallel/pipeline/schedule_order.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace plumbline {
namespace {

// "F0 F1 B0": F, B, I (input part), W (weight part); with chunks "F0.1".
std::string Shorthand(const std::vector<Operation>& order, bool chunks) {
  std::string text;
  for (const Operation& operation : order) {
    const char letter = "FBIW"[static_cast<int>(operation.kind)];
    text += fmt::format("{}{}{}", text.empty() ? "" : " ", letter, operation.microbatch);
    if (chunks) text += fmt::format(".{}", operation.chunk);
  }
  return text;
}

std::string Stage(const ScheduleConfig& config, int stage) {
  return Shorthand(ComputeOrder(config)[static_cast<size_t>(stage)], config.virtual_chunks > 1);
}

int WarmUp(const std::vector<Operation>& order) {
  int count = 0;
  while (order[static_cast<size_t>(count)].kind == OperationKind::kForward) ++count;
  return count - 1;  // the last forward before a backward belongs to the steady state
}

TEST(ScheduleOrderTest, NaiveAndGpipe) {
  EXPECT_EQ(Stage({ScheduleKind::kNaive, 2, 1, 3}, 0), "F0 B0 F1 B1 F2 B2");
  EXPECT_EQ(Stage({ScheduleKind::kGpipe, 2, 1, 3}, 1), "F0 F1 F2 B0 B1 B2");
}

TEST(ScheduleOrderTest, OneForwardOneBackwardWarmsUpWithTheStagesBehind) {
  for (int p = 1; p <= 8; ++p) {
    for (int m = 1; m <= 12; ++m) {
      const auto orders = ComputeOrder({ScheduleKind::kOneForwardOneBackward, p, 1, m});
      for (int i = 0; i < p; ++i) {
        // With all microbatches in the warm-up, the last of them counts as the steady state's.
        EXPECT_EQ(WarmUp(orders[static_cast<size_t>(i)]), std::min(p - i - 1, m - 1));
      }
    }
  }
  EXPECT_EQ(Stage({ScheduleKind::kOneForwardOneBackward, 3, 1, 4}, 0), "F0 F1 F2 B0 F3 B1 B2 B3");
  EXPECT_EQ(Stage({ScheduleKind::kOneForwardOneBackward, 3, 1, 4}, 2), "F0 B0 F1 B1 F2 B2 F3 B3");
}

TEST(ScheduleOrderTest, InterleavedWarmUpIsMegatrons) {
  for (int p = 2; p <= 5; ++p) {
    for (int v = 2; v <= 3; ++v) {
      for (int g = p; g <= p + 2; ++g) {
        const int m = 2 * g;
        const auto orders = ComputeOrder({ScheduleKind::kInterleaved, p, v, m, g});
        for (int i = 0; i < p; ++i) {
          const int warm_up = 2 * (p - i - 1) + (v - 1) * g;
          EXPECT_EQ(WarmUp(orders[static_cast<size_t>(i)]), std::min(warm_up, v * m - 1));
        }
      }
    }
  }
}

TEST(ScheduleOrderTest, InterleavedTakesGroupsOfMicrobatchesChunkByChunk) {
  // Groups of 3 and 2: forwards 0 1 2 | 0 1 2 | 3 4 | 3 4 of chunks 0 1 0 1; backwards of 1 0 1 0.
  const ScheduleConfig config{ScheduleKind::kInterleaved, 2, 2, 5, 3};
  EXPECT_EQ(Stage(config, 1),
            "F0.0 F1.0 F2.0 F0.1 B0.1 F1.1 B1.1 F2.1 B2.1 F3.0 B0.0 F4.0 B1.0 F3.1 B2.0 F4.1 B3.1 "
            "B4.1 B3.0 B4.0");
  EXPECT_EQ(Stage(config, 0),
            "F0.0 F1.0 F2.0 F0.1 F1.1 F2.1 B0.1 F3.0 B1.1 F4.0 B2.1 F3.1 B0.0 F4.1 B1.0 B2.0 B3.1 "
            "B4.1 B3.0 B4.0");
}

TEST(ScheduleOrderTest, ZeroBubbleDelaysWeightPartsTheMoreTheLaterTheStage) {
  EXPECT_EQ(Stage({ScheduleKind::kZeroBubbleH1, 2, 1, 3}, 0), "F0 F1 I0 W0 F2 I1 W1 I2 W2");
  EXPECT_EQ(Stage({ScheduleKind::kZeroBubbleH1, 2, 1, 3}, 1), "F0 I0 F1 I1 W0 F2 I2 W1 W2");
  EXPECT_EQ(Stage({ScheduleKind::kZeroBubbleH2, 2, 1, 4}, 0),
            "F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3");
  EXPECT_EQ(Stage({ScheduleKind::kZeroBubbleH2, 2, 1, 4}, 1),
            "F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3");
}

TEST(ScheduleOrderTest, OneStageAccumulatesMicrobatchByMicrobatch) {
  EXPECT_EQ(Stage({ScheduleKind::kOneForwardOneBackward, 1, 1, 2}, 0), "F0 B0 F1 B1");
  EXPECT_EQ(Stage({ScheduleKind::kZeroBubbleH1, 1, 1, 2}, 0), "F0 I0 W0 F1 I1 W1");
}

}  // namespace
}  // namespace plumbline
