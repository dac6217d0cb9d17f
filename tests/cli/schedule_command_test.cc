#include "cli/schedule_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"

namespace plumbline {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

std::string Output(const std::vector<std::string>& words) {
  std::ostringstream out;
  std::ostringstream err;
  EXPECT_EQ(RunSchedule(words, {out, err}), 0);
  EXPECT_EQ(err.str(), "");
  return out.str();
}

std::string ErrorOf(const std::vector<std::string>& words) {
  std::ostringstream out;
  std::ostringstream err;
  try {
    RunSchedule(words, {out, err});
  } catch (const Error& error) {
    EXPECT_EQ(out.str(), "");
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.what();
  }
  return "no error";
}

TEST(ScheduleCommandTest, PrintsPictureBubbleFormulaAndLiveActivations) {
  const std::string text =
      Output({"--pp", "4", "--microbatches", "8", "--schedule", "1f1b", "--width", "120"});
  EXPECT_THAT(text, HasSubstr("1f1b: 4 stages, 8 microbatches; forward 1, backward 2\n"));
  EXPECT_THAT(text, HasSubstr("stage 3 | .  .  .  F0 B0--- F1 B1---"));
  EXPECT_THAT(text, HasSubstr("bubble      27.27 % (3/11)\n"));
  EXPECT_THAT(text, HasSubstr("by formula  27.27 % (3/11) = (p - 1) / (m + p - 1)\n"));
  EXPECT_THAT(text, HasSubstr("peak live activations"));
  EXPECT_THAT(text, HasSubstr("\n    1    24                     6                      3      3"));
}

TEST(ScheduleCommandTest, WithoutANameItIsWhatMegatronWouldRun) {
  EXPECT_THAT(Output({"--pp", "2", "--microbatches", "4"}), HasSubstr("1f1b: 2 stages"));
  EXPECT_THAT(Output({"--pp", "2", "--microbatches", "4", "--virtual", "2"}),
              HasSubstr("interleaved: 2 stages of 2 chunks, 4 microbatches"));
}

TEST(ScheduleCommandTest, MegatronsNamesMeanTheSame) {
  EXPECT_EQ(Output({"--pp", "2", "--virtual", "2", "--microbatches", "4"}),
            Output({"--pipeline-model-parallel-size", "2", "--num-virtual-stages-per-pipeline-rank",
                    "2", "--microbatches=4"}));
}

TEST(ScheduleCommandTest, CostsOfTheTwoPartsOfABackward) {
  const auto costs = [](std::vector<std::string> words) {
    words.insert(words.end(), {"--schedule", "zb-h2", "--json"});
    return Json::parse(Output(words))["costs"];
  };
  EXPECT_EQ(costs({})["backward_input"], 1);
  EXPECT_EQ(costs({"--cost-backward", "5"})["backward_input"], 3);
  EXPECT_EQ(costs({"--cost-backward", "5"})["backward_weight"], 2);
  EXPECT_EQ(costs({"--cost-backward", "5", "--cost-backward-weight", "1"})["backward_input"], 4);
}

TEST(ScheduleCommandTest, SaysWhyThereIsNoFormula) {
  EXPECT_THAT(Output({"--pp", "2", "--microbatches", "4", "--cost-communication", "1"}),
              HasSubstr("none: (p - 1) / (m + p - 1) holds without communication"));
  EXPECT_THAT(Output({"--pp", "4", "--microbatches", "3", "--schedule", "zb-h1"}),
              HasSubstr("holds for m >= p and F >= W"));
}

TEST(ScheduleCommandTest, JsonHoldsAllOperations) {
  const Json json =
      Json::parse(Output({"--pp", "2", "--microbatches", "2", "--virtual", "2", "--json"}));
  EXPECT_EQ(json["schedule"], "interleaved");
  EXPECT_EQ(json["bubble"]["numerator"], 1);
  EXPECT_EQ(json["bubble"]["denominator"], 5);
  EXPECT_EQ(json["bubble"], json["bubble_by_formula"]);
  ASSERT_EQ(json["stages"].size(), 2u);
  // 2 microbatches: 4 computations, and 3 messages on stage 0, which has no peer at the first end.
  EXPECT_EQ(json["stages"][0]["operations"].size(), size_t{2 * (4 + 6)});
  EXPECT_EQ(json["stages"][0]["operations"][0]["kind"], "forward");
  EXPECT_EQ(json["stages"][0]["operations"][1]["peer_stage"], 1);
}

TEST(ScheduleCommandTest, ErrorsAreOneLineWithTheFlag) {
  EXPECT_EQ(ErrorOf({"--microbatch", "4"}),
            "unknown argument '--microbatch'; did you mean '--microbatches'?");
  EXPECT_EQ(ErrorOf({"--pp", "two"}), "--pp two: expected a whole number");
  EXPECT_EQ(ErrorOf({"--pp", "1.5"}), "--pp 1.5: expected a whole number");
  EXPECT_EQ(ErrorOf({"--pp", "-1"}), "--pp -1: expected a number from 0 to 2147483647");
  EXPECT_EQ(ErrorOf({"--pp", "99999999999999999999"}),
            "--pp 99999999999999999999: expected a whole number");
  EXPECT_EQ(ErrorOf({"--pp"}), "--pp: expected a value");
  EXPECT_THAT(ErrorOf({"--pp", "0"}), HasSubstr("--pipeline-model-parallel-size must be at least"));
  EXPECT_THAT(ErrorOf({"--schedule", "1f2b"}), HasSubstr("--schedule must be one of naive, gpipe"));
  EXPECT_EQ(ErrorOf({"--cost-backward", "2", "--cost-backward-weight", "3"}),
            "--cost-backward-weight 3: expected at most --cost-backward, 2");
  EXPECT_THAT(ErrorOf({"--pp", "2", "--virtual", "2", "--microbatches", "3"}),
              HasSubstr("must be 0 or at least --pipeline-model-parallel-size (2); it is 1"));
  EXPECT_THAT(ErrorOf({"--pp", "2", "--virtual", "2", "--microbatches", "4",
                       "--microbatch-group-size-per-virtual-pipeline-stage", "0"}),
              HasSubstr("must be at least 1; it is 0"));
  EXPECT_THAT(ErrorOf({"--cost-forward", "9223372036854775807"}), HasSubstr("too large"));
}

TEST(ScheduleCommandTest, SvgIsWrittenAndAnErrorPrintsNoPicture) {
  const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "schedule.svg";
  std::filesystem::remove(file);
  Output({"--pp", "2", "--microbatches", "2", "--svg", file});
  EXPECT_TRUE(std::filesystem::exists(file));
  EXPECT_THAT(ErrorOf({"--svg", "/nonexistent/a.svg"}),
              HasSubstr("--svg /nonexistent/a.svg: No such file"));
}

TEST(ScheduleCommandTest, HelpShowsTheOptions) {
  const std::string help = Output({"--help"});
  EXPECT_THAT(help, HasSubstr("--microbatch-group-size-per-virtual-pipeline-stage"));
  EXPECT_THAT(help, HasSubstr("plumbline schedule --pp 4"));
}

}  // namespace
}  // namespace plumbline
