#include "cli/command_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "base/error.h"

namespace plumbline {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr OptionRow kRows[] = {{"--size,--long-size", "N", "how many"},
                               {"--name", "TEXT", "what it is called"}};

struct Parsed {
  CommandOptions options;
  std::string help;
  std::vector<std::string> extras;
};

Parsed Parse(const std::vector<std::string>& words) {
  CLI::App app("a summary", "program");
  AddOptions(kRows, app);
  Parsed parsed;
  parsed.help = ParseWords(words, app);
  if (!parsed.help.empty()) return parsed;
  parsed.options = CollectOptions(kRows, app);
  parsed.extras = app.remaining();
  return parsed;
}

int32_t SizeOf(const std::vector<std::string>& words) {
  int32_t size = -1;
  Parse(words).options.Read("--size", &size);
  return size;
}

std::string ErrorOf(const std::vector<std::string>& words) {
  try {
    SizeOf(words);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "no error";
}

TEST(CommandOptionsTest, EveryNameOfARowMeansTheSameAndTheLastCounts) {
  EXPECT_EQ(SizeOf({"--size", "3"}), 3);
  EXPECT_EQ(SizeOf({"--long-size=4"}), 4);
  EXPECT_EQ(SizeOf({"--size", "3", "--long-size", "5"}), 5);
  EXPECT_EQ(SizeOf({}), -1);
  EXPECT_EQ(Parse({"--name", "a b"}).options.Text("--name"), "a b");
  EXPECT_EQ(Parse({}).options.Text("--name"), std::nullopt);
}

TEST(CommandOptionsTest, NumbersAreWholeAndFitTheirType) {
  EXPECT_EQ(ErrorOf({"--size", "two"}), "--size two: expected a whole number");
  EXPECT_EQ(ErrorOf({"--size", "1.5"}), "--size 1.5: expected a whole number");
  EXPECT_EQ(ErrorOf({"--size", "-1"}), "--size -1: expected a number from 0 to 2147483647");
  EXPECT_EQ(ErrorOf({"--size", "2147483648"}),
            "--size 2147483648: expected a number from 0 to 2147483647");
  EXPECT_EQ(ErrorOf({"--size", "99999999999999999999"}),
            "--size 99999999999999999999: expected a whole number");
  EXPECT_EQ(ErrorOf({"--size"}), "--size: expected a value");
}

TEST(CommandOptionsTest, HelpIsReturnedAndExtrasAreLeft) {
  EXPECT_THAT(Parse({"--help"}).help, HasSubstr("--long-size"));
  EXPECT_THAT(Parse({"--size", "1", "stray", "--other"}).extras, ElementsAre("stray", "--other"));
  EXPECT_THAT(NamesOf(kRows), ElementsAre("--size", "--long-size", "--name"));
}

}  // namespace
}  // namespace plumbline
