#include "cli/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"

namespace plumbline {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::string ErrorOf(const std::vector<std::string>& words) {
  try {
    ParseCommandLine(words);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(CommandLineTest, ValuesFollowOrAreJoinedByEquals) {
  const CommandLine line =
      ParseCommandLine({"verify", "--tp", "2", "--num-layers=4", "--sp", "--lr", "-1e-3"});
  EXPECT_EQ(line.command, "verify");
  EXPECT_EQ(line.given.Integer("tensor-model-parallel-size"), 2);
  EXPECT_EQ(line.given.Integer("num-layers"), 4);
  EXPECT_TRUE(line.given.Flag("sequence-parallel"));
  EXPECT_FALSE(line.given.Flag("swiglu"));
  EXPECT_EQ(line.given.Number("lr"), -1e-3);
}

TEST(CommandLineTest, TheLastOfRepeatedArgumentsCounts) {
  const CommandLine line = ParseCommandLine({"verify", "--tp", "2", "--tensor-model-parallel-size",
                                             "4", "--sp", "--sequence-parallel=false"});
  EXPECT_EQ(line.given.Integer("tensor-model-parallel-size"), 4);
  EXPECT_FALSE(line.given.Flag("sequence-parallel"));
}

TEST(CommandLineTest, ListsEndAtTheNextArgument) {
  const CommandLine line = ParseCommandLine(
      {"verify", "--data-path", "0.3", "a", "0.7", "b", "--profile-ranks", "0", "1", "--sp"});
  EXPECT_THAT(line.given.Find("data-path")->values, ElementsAre("0.3", "a", "0.7", "b"));
  EXPECT_THAT(line.given.Find("profile-ranks")->values, ElementsAre("0", "1"));
  EXPECT_TRUE(line.given.Flag("sequence-parallel"));
}

TEST(CommandLineTest, UnknownWordsGetTheNearestName) {
  EXPECT_EQ(ErrorOf({"verify", "--hiden-size", "4"}),
            "unknown argument '--hiden-size'; did you mean '--hidden-size'?");
  EXPECT_EQ(ErrorOf({"verify", "--hidden_size=4"}),
            "unknown argument '--hidden_size'; did you mean '--hidden-size'?");
  EXPECT_EQ(ErrorOf({"verify", "-tp", "4"}), "unknown argument '-tp'; did you mean '--tp'?");
  EXPECT_EQ(ErrorOf({"verfy"}), "unknown command 'verfy'; did you mean 'verify'?");
  EXPECT_THAT(ErrorOf({"verify", "--tp", "2", "stray"}), HasSubstr("unexpected word 'stray'"));
  EXPECT_THAT(ErrorOf({}), HasSubstr("expected a command: verify, layout"));
}

TEST(CommandLineTest, MissingAndEmptyValuesAreNamed) {
  EXPECT_EQ(ErrorOf({"verify", "--hidden-size"}), "--hidden-size: expected a value");
  EXPECT_EQ(ErrorOf({"verify", "--hidden-size", "--sp"}),
            "--hidden-size: expected a value, not '--sp'");
  EXPECT_EQ(ErrorOf({"verify", "--hidden-size=", "--sp"}),
            "--hidden-size: expected a value after '='");
  EXPECT_EQ(ErrorOf({"verify", "--data", ""}), "--data: the value is empty");
  EXPECT_EQ(ErrorOf({"verify", "--sp=7"}), "--sequence-parallel=7: takes no value");
}

TEST(CommandLineTest, EveryKnownArgumentIsParsedWithItsArity) {
  for (const Argument& argument : AllArguments()) {
    if (argument.name == "config") continue;
    std::vector<std::string> words = {"verify", "--" + argument.name};
    if (argument.arity != Arity::kNone) words.push_back("17");
    words.push_back("--swiglu");
    const CommandLine line = ParseCommandLine(words);
    EXPECT_TRUE(line.given.Has(argument.name)) << argument.name;
    EXPECT_TRUE(line.given.Has("swiglu")) << argument.name;
  }
}

TEST(CommandLineTest, TheCommandLineWinsOverTheFile) {
  const std::string path = testing::TempDir() + "/precedence.toml";
  std::ofstream(path) << "num-layers = 4\nhidden-size = 128\nsequence-parallel = true\n";
  const CommandLine line =
      ParseCommandLine({"verify", "--config", path, "--num-layers", "3", "--sp=false"});
  EXPECT_EQ(line.given.Integer("num-layers"), 3);
  EXPECT_EQ(line.given.Integer("hidden-size"), 128);
  EXPECT_FALSE(line.given.Flag("sequence-parallel"));
}

TEST(CommandLineTest, ALaunchLineCanBePasted) {
  const CommandLine line =
      ParseCommandLine({"verify", "torchrun", "--nproc-per-node", "8", "pretrain_gpt.py",
                        "--tensor-model-parallel-size", "4", "--log-interval", "10"});
  EXPECT_EQ(line.launcher_world_size, 8);
  EXPECT_EQ(line.given.Integer("tensor-model-parallel-size"), 4);
}

TEST(CommandLineTest, HelpShowsWhatIsModelledOnly) {
  const std::string help = ParseCommandLine({"verify", "--help"}).help;
  EXPECT_THAT(help, HasSubstr("--tensor-model-parallel-size"));
  EXPECT_THAT(help, HasSubstr("Examples:"));
  EXPECT_THAT(help, Not(HasSubstr("--log-interval")));
  EXPECT_THAT(ParseCommandLine({"--help"}).help, HasSubstr("layout"));
  EXPECT_THAT(ParseCommandLine({"--version"}).help, HasSubstr("plumbline"));
}

TEST(CommandLineTest, LayoutAndGoldenHaveTheirOwnArguments) {
  const CommandLine layout =
      ParseCommandLine({"layout", "--pp", "2", "--param", "a", "--param", "b"});
  EXPECT_EQ(layout.given.Integer("pipeline-model-parallel-size"), 2);
  EXPECT_THAT(layout.parameters, ElementsAre("a", "b"));
  const CommandLine golden = ParseCommandLine({"golden", "x.safetensors", "--json", "y"});
  EXPECT_THAT(golden.files, ElementsAre("x.safetensors", "y"));
  EXPECT_TRUE(golden.json);
  EXPECT_THAT(ErrorOf({"golden"}), HasSubstr("expected at least one FILE"));
  EXPECT_THAT(ErrorOf({"golden", "--tp", "2"}), HasSubstr("unknown argument '--tp'"));
  EXPECT_THAT(ErrorOf({"verify", "--param", "a"}), HasSubstr("unknown argument '--param'"));
}

}  // namespace
}  // namespace plumbline
