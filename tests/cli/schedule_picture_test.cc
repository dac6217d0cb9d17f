#include "cli/schedule_picture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "parallel/pipeline/schedule_builder.h"

namespace plumbline {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr ScheduleKind kOneF = ScheduleKind::kOneForwardOneBackward;

std::string Draw(const ScheduleConfig& config, const PictureStyle& style, const Costs& costs = {}) {
  const Schedule schedule = MakeSchedule(config);
  return SchedulePicture(schedule, Simulate(schedule, costs), style);
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string WithoutColour(const std::string& text) {
  return std::regex_replace(text, std::regex("\033\\[[0-9;]*m"), "");
}

TEST(SchedulePictureTest, ARowForEachStageAndACellForEachSlot) {
  EXPECT_EQ(Draw({kOneF, 2, 1, 3}, {.width = 100}),
            "time      0              5              10\n"
            "stage 0 | F0 F1 .  .  B0--- F2 B1--- .  B2---\n"
            "stage 1 | .  F0 B0--- F1 B1--- F2 B2--- .  .\n"
            "\n"
            "F forward   B backward   . idle   numbers are microbatches\n");
}

TEST(SchedulePictureTest, SplitBackwardsShowBothParts) {
  EXPECT_EQ(Draw({ScheduleKind::kZeroBubbleH1, 2, 1, 3}, {.width = 100}),
            "time      0              5\n"
            "stage 0 | F0 F1 .  B0 W0 F2 B1 W1 B2 W2\n"
            "stage 1 | .  F0 B0 F1 B1 W0 F2 B2 W1 W2\n"
            "\n"
            "F forward   B backward, input part   W backward, weight part   . idle   numbers are "
            "microbatches\n");
}

TEST(SchedulePictureTest, ChunksAreLetters) {
  const std::string text = Draw({ScheduleKind::kInterleaved, 2, 2, 2}, {.width = 100});
  EXPECT_THAT(text,
              HasSubstr("stage 0 | F0a F1a F0b F1b .   .   B0b---- .   B1b---- B0a---- B1a----\n"));
  EXPECT_THAT(text, HasSubstr("a to b chunks 0 to 1"));
}

TEST(SchedulePictureTest, ASlotIsTheCommonDivisorOfTheTimes) {
  EXPECT_EQ(Draw({kOneF, 2, 1, 3}, {.width = 100}, {1, 1, 1, 0}).substr(50),
            Draw({kOneF, 2, 1, 3}, {.width = 100}, {7, 7, 7, 0}).substr(50));
  EXPECT_THAT(Draw({kOneF, 2, 1, 3}, {.width = 100}, {7, 7, 7, 0}),
              HasSubstr("time      0              35             70\n"));
}

TEST(SchedulePictureTest, NoLineIsLongerThanTheWidth) {
  for (const int width : {30, 47, 80, 200}) {
    for (const bool colour : {false, true}) {
      const PictureStyle style{.colour = colour, .width = width};
      const auto lines = Lines(WithoutColour(Draw({kOneF, 4, 1, 12}, style)));
      for (const std::string& line : lines) {
        if (line.starts_with("stage") || line.starts_with("time")) {
          EXPECT_LE(line.size(), static_cast<size_t>(width)) << line;
        }
      }
    }
  }
}

TEST(SchedulePictureTest, WrappedRowsHoldWhatOneRowHolds) {
  const auto row = [](const std::string& text) {
    std::string all;
    for (const std::string& line : Lines(text)) {
      if (!line.starts_with("stage 1 | ")) continue;
      for (const char c : line.substr(10)) {
        if (c != ' ' && c != '-') all += c;
      }
    }
    return all;
  };
  const std::string whole = Draw({kOneF, 4, 1, 12}, {.width = 0});
  EXPECT_EQ(row(Draw({kOneF, 4, 1, 12}, {.width = 40})), row(whole));
  EXPECT_EQ(Lines(whole).size(), 7u);
}

TEST(SchedulePictureTest, ManyScreensAreCutInTheMiddle) {
  const std::string text = Draw({kOneF, 64, 1, 256}, {.width = 100});
  EXPECT_LT(Lines(text).size(), 220u);
  EXPECT_THAT(text, HasSubstr("are left out; --width 0 or --svg FILE shows all"));
  EXPECT_THAT(text, HasSubstr("stage  0 | F0   F1 "));
  EXPECT_THAT(text, HasSubstr("B255"));
  EXPECT_THAT(Draw({kOneF, 64, 1, 256}, {.width = 0}), Not(HasSubstr("left out")));
}

TEST(SchedulePictureTest, ColourReplacesLetters) {
  const std::string text = Draw({kOneF, 2, 1, 3}, {.colour = true, .width = 100});
  EXPECT_THAT(text, HasSubstr("\033[48;5;"));
  EXPECT_THAT(WithoutColour(text), HasSubstr("stage 1 | . 0 0   1 1   2 2   . . \n"));
  EXPECT_THAT(Draw({kOneF, 2, 1, 3}, {.width = 100}), Not(HasSubstr("\033")));
}

TEST(SchedulePictureTest, PlainRowsEndWithoutBlanks) {
  for (const std::string& line : Lines(Draw({kOneF, 3, 1, 3}, {.width = 100}))) {
    EXPECT_FALSE(line.ends_with(' ')) << line;
  }
}

TEST(SchedulePictureTest, TooManySlotsAreRefused) {
  EXPECT_THROW(Draw({kOneF, 2, 1, 3}, {.width = 100}, {1000000007, 998244353, 1, 0}),
               InvalidArgument);
}

TEST(SchedulePictureTest, FreeStepIsAnEmptyPicture) {
  EXPECT_EQ(Lines(Draw({kOneF, 2, 1, 3}, {.width = 100}, {0, 0, 0, 0})).size(), 1u);
}

}  // namespace
}  // namespace plumbline
