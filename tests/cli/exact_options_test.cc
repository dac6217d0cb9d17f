#include "cli/exact_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cli/run_options.h"

namespace plumbline {
namespace {

using testing::HasSubstr;
using Words = std::vector<std::string>;

RunOptions Options(Words words) {
  words.insert(words.begin(), "verify");
  return MakeRunOptions(ParseCommandLine(words));
}

std::string ErrorOf(Words words) {
  try {
    Options(std::move(words));
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "no error";
}

TEST(ExactOptionsTest, ExactIsTheLargePrimeAndOneKeyOfTheSeed) {
  const RunOptions options = Options({"--dtype", "exact", "--seed", "7"});
  EXPECT_EQ(options.config.dtype, DType::kM61);
  EXPECT_EQ(options.exact.keys, 1);
  EXPECT_EQ(options.exact.seed, 7U);
}

TEST(ExactOptionsTest, PrimesAndKeysAreRead) {
  EXPECT_EQ(Options({"--dtype", "exact", "--prime", "m61"}).config.dtype, DType::kM61);
  EXPECT_EQ(Options({"--dtype", "exact", "--prime", "p50"}).config.dtype, DType::kP50);
  const RunOptions small = Options({"--dtype", "exact", "--prime", "1009", "--keys", "8"});
  EXPECT_EQ(small.config.dtype, DType::kP31);
  EXPECT_EQ(small.exact.small_prime, 1009U);
  EXPECT_EQ(small.exact.keys, 8);
}

TEST(ExactOptionsTest, WrongOnesAreRefused) {
  EXPECT_THAT(ErrorOf({"--prime", "m61"}), HasSubstr("--prime needs --dtype exact"));
  EXPECT_THAT(ErrorOf({"--dtype", "f32", "--keys", "2"}), HasSubstr("--keys needs --dtype exact"));
  EXPECT_THAT(ErrorOf({"--dtype", "exact", "--keys", "0"}), HasSubstr("--keys 0: expected 1 to"));
  EXPECT_THAT(ErrorOf({"--dtype", "exact", "--prime", "1001"}), HasSubstr("prime 1001"));
  EXPECT_THAT(ErrorOf({"--dtype", "exact", "--prime", "2147483648"}), HasSubstr("2147483648"));
  EXPECT_THAT(ErrorOf({"--dtype", "exact", "--prime", "p51"}), HasSubstr("expected m61, p50"));
  EXPECT_THAT(ErrorOf({"--dtype", "f8"}), HasSubstr("--dtype 'f8'"));
}

TEST(ExactOptionsTest, RepeatLineHasThem) {
  EXPECT_THAT(Options({"--dtype", "exact", "--prime", "p50", "--keys", "3"}).repeat,
              HasSubstr("--dtype exact --prime p50 --keys 3"));
}

}  // namespace
}  // namespace plumbline
