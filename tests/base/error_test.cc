#include "base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace plumbline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

TEST(ErrorTest, EachClassHasItsCodeAndIsAnError) {
  const auto code_of = [](const auto& thrower) {
    try {
      thrower();
    } catch (const Error& error) {
      return error.code();
    }
    throw std::logic_error("nothing was thrown");
  };
  EXPECT_EQ(code_of([] { throw InvalidArgument("x"); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([] { throw IoError("x"); }), ErrorCode::kIo);
  EXPECT_EQ(code_of([] { throw Unavailable("x"); }), ErrorCode::kUnavailable);
  EXPECT_EQ(code_of([] { throw Internal("x"); }), ErrorCode::kInternal);
  EXPECT_EQ(code_of([] { throw Aborted("x"); }), ErrorCode::kAborted);
}

TEST(ErrorTest, MessageIsFormatted) {
  EXPECT_THAT([] { throw InvalidArgument("--tp {} of {}", 3, "x"); },
              ThrowsMessage<InvalidArgument>("--tp 3 of x"));
}

TEST(CheckTest, PrintsTheExpressionAndBothValues) {
  const int a = 3;
  const std::string b = "left";
  EXPECT_THAT([&] { PL_CHECK(a == 4); },
              ThrowsMessage<Internal>(
                  AllOf(HasSubstr("a == 4"), HasSubstr("(3 == 4)"), HasSubstr("error_test.cc"))));
  EXPECT_THAT([&] { PL_CHECK(b != "left"); }, ThrowsMessage<Internal>(HasSubstr("left != left")));
  EXPECT_THAT([&] { PL_CHECK(a < 3); }, ThrowsMessage<Internal>(HasSubstr("(3 < 3)")));
  EXPECT_THAT([&] { PL_CHECK(a <= 2); }, ThrowsMessage<Internal>(HasSubstr("(3 <= 2)")));
  EXPECT_THAT([&] { PL_CHECK(a > 3); }, ThrowsMessage<Internal>(HasSubstr("(3 > 3)")));
  EXPECT_THAT([&] { PL_CHECK(a >= 4); }, ThrowsMessage<Internal>(HasSubstr("(3 >= 4)")));
  const bool flag = false;
  EXPECT_THAT([&] { PL_CHECK(flag); }, ThrowsMessage<Internal>(HasSubstr("flag")));
}

TEST(CheckTest, PassesInSilenceAndEvaluatesOnce) {
  int calls = 0;
  PL_CHECK(++calls == 1);
  EXPECT_EQ(calls, 1);
}

TEST(CheckTest, NaNFailsEveryBound) {
  const double nan = std::stod("nan");
  EXPECT_THROW(PL_CHECK(nan <= 1.0), Internal);
  EXPECT_THROW(PL_CHECK(nan >= 1.0), Internal);
  EXPECT_THROW(PL_CHECK(nan == nan), Internal);
}

TEST(CheckTest, NamesTheRunningRankAndTheSeed) {
  CurrentRank() = {5, 77};
  EXPECT_THAT([] { PL_CHECK(1 == 2); }, ThrowsMessage<Internal>(HasSubstr("on rank 5 (seed 77)")));
  CurrentRank() = {};
  EXPECT_THAT([] { PL_CHECK(1 == 2); }, ThrowsMessage<Internal>(Not(HasSubstr("rank"))));
}

TEST(CheckTest, ValuesThatCannotBePrintedStillCompare) {
  struct Opaque {
    bool operator==(const Opaque&) const { return false; }
  };
  EXPECT_THAT([] { PL_CHECK(Opaque() == Opaque()); },
              ThrowsMessage<Internal>(HasSubstr("(? == ?)")));
}

}  // namespace
}  // namespace plumbline
