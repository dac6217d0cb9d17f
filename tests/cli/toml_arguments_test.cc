#include "cli/toml_arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "base/error.h"

namespace plumbline {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string ErrorOf(const std::string& text) {
  try {
    ParseToml(text, "run.toml");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(TomlArgumentsTest, KeysAreArgumentsUnderAnyHeading) {
  const GivenArguments given = ParseToml(
      "tp = 2\nsequence_parallel = true\nswiglu = false\n[model]\nrotary-base = 1e6\n"
      "num_layers = 4\n[model.inner]\ndata-path = [1, \"x\"]\nnormalization = \"RMSNorm\"\n",
      "run.toml");
  EXPECT_EQ(given.Integer("tensor-model-parallel-size"), 2);
  EXPECT_TRUE(given.Flag("sequence-parallel"));
  EXPECT_FALSE(given.Flag("swiglu"));
  EXPECT_EQ(given.Number("rotary-base"), 1e6);
  EXPECT_EQ(given.Integer("num-layers"), 4);
  EXPECT_EQ(given.Text("normalization"), "RMSNorm");
  EXPECT_THAT(given.Find("data-path")->values, ElementsAre("1", "x"));
}

TEST(TomlArgumentsTest, ErrorsNameFileAndLine) {
  EXPECT_THAT(
      ErrorOf("\nnum-layer = 2\n"),
      HasSubstr("run.toml line 2: unknown argument 'num-layer'; did you mean 'num-layers'?"));
  EXPECT_THAT(ErrorOf("tp = \n"), HasSubstr("run.toml line 1: "));
  EXPECT_THAT(ErrorOf("sp = 1"), HasSubstr("expected true or false"));
  EXPECT_THAT(ErrorOf("tp = [1, 2]"), HasSubstr("expected one value, not 2"));
  EXPECT_THAT(ErrorOf("tp = 2\ntensor_model_parallel_size = 2"), HasSubstr("there twice"));
  EXPECT_THAT(ErrorOf("tp = 1979-05-27"), HasSubstr("expected a string or a number"));
  EXPECT_THAT(ErrorOf("data-path = [[1]]"), HasSubstr("expected plain values"));
  EXPECT_THAT(ErrorOf("config = \"b.toml\""), HasSubstr("cannot name another"));
}

TEST(TomlArgumentsTest, ReadersNameThePlace) {
  const GivenArguments given = ParseToml("\n\nhidden-size = \"wide\"\n", "run.toml");
  try {
    given.Integer("hidden-size");
    FAIL() << "expected an error";
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(), "run.toml line 3: --hidden-size 'wide': expected an integer");
  }
}

TEST(TomlArgumentsTest, FilesAreFoundFromWhereThePersonIs) {
  const std::string directory = testing::TempDir();
  std::ofstream(directory + "/there.toml") << "tp = 4\n";
  std::ofstream(directory + "/empty.toml");
  ASSERT_EQ(setenv("BUILD_WORKING_DIRECTORY", directory.c_str(), 1), 0);
  EXPECT_EQ(ParseTomlFile("there.toml").Integer("tensor-model-parallel-size"), 4);
  EXPECT_THROW(ParseTomlFile("missing.toml"), IoError);
  EXPECT_THROW(ParseTomlFile("."), IoError);
  EXPECT_THROW(ParseTomlFile("empty.toml"), InvalidArgument);
  ASSERT_EQ(unsetenv("BUILD_WORKING_DIRECTORY"), 0);
}

}  // namespace
}  // namespace plumbline
