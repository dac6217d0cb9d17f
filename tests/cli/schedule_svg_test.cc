#include "cli/schedule_svg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <vector>

#include "parallel/pipeline/schedule_builder.h"

namespace plumbline {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string Draw(const ScheduleConfig& config, const Costs& costs = {},
                 const std::string& title = "title") {
  const Schedule schedule = MakeSchedule(config);
  return ScheduleSvg(schedule, Simulate(schedule, costs), title, "subtitle");
}

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(ScheduleSvgTest, ABoxWithATooltipForEachComputation) {
  const std::string svg = Draw({ScheduleKind::kZeroBubbleH1, 3, 1, 5});
  EXPECT_EQ(Count(svg, "<title>"), size_t{3 * 5 * 3});
  EXPECT_THAT(svg, HasSubstr("<title>backward_weight microbatch 4 chunk 0, time "));
}

TEST(ScheduleSvgTest, ElementsAreBalanced) {
  const std::string svg = Draw({ScheduleKind::kInterleaved, 4, 8, 8});
  std::vector<std::string> open;
  const std::regex tag("<(/?)([a-z]+)[^<>]*?(/?)>");
  for (auto it = std::sregex_iterator(svg.begin(), svg.end(), tag); it != std::sregex_iterator();
       ++it) {
    if ((*it)[3].length() > 0) continue;
    if ((*it)[1].length() == 0) {
      open.push_back((*it)[2]);
    } else {
      ASSERT_FALSE(open.empty());
      ASSERT_EQ(open.back(), (*it)[2]);
      open.pop_back();
    }
  }
  EXPECT_TRUE(open.empty());
}

TEST(ScheduleSvgTest, NeedsNothingFromElsewhere) {
  const std::string svg = Draw({ScheduleKind::kGpipe, 2, 1, 2});
  EXPECT_THAT(svg, Not(HasSubstr("href")));
  EXPECT_THAT(svg, Not(HasSubstr("url(")));
  EXPECT_EQ(Count(svg, "http"), 1u);  // the name space
}

TEST(ScheduleSvgTest, TitleIsEscaped) {
  const std::string svg = Draw({ScheduleKind::kGpipe, 2, 1, 2}, {}, "a < b & c > d");
  EXPECT_THAT(svg, HasSubstr("a &lt; b &amp; c &gt; d"));
}

TEST(ScheduleSvgTest, WidthStaysBounded) {
  for (const Costs& costs : {Costs{}, Costs{1000000, 1, 1, 0}, Costs{0, 0, 0, 0}}) {
    const std::string svg = Draw({ScheduleKind::kOneForwardOneBackward, 8, 1, 64}, costs);
    std::smatch width;
    ASSERT_TRUE(std::regex_search(svg, width, std::regex("width=\"([0-9.]+)\"")));
    EXPECT_GT(std::stod(width[1]), 300);
    EXPECT_LT(std::stod(width[1]), 8300);
  }
}

TEST(ScheduleSvgTest, TimesOfAnySizeAreDrawn) {
  EXPECT_THAT(Draw({ScheduleKind::kGpipe, 2, 1, 2}, {int64_t{1} << 56, int64_t{1} << 56, 1, 0}),
              HasSubstr("</svg>"));
}

}  // namespace
}  // namespace plumbline
