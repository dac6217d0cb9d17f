#include "cli/arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace plumbline {
namespace {

TEST(ArgumentsTest, NamesAndAliasesAreUniqueAndSpelledWithoutDashesInFront) {
  std::set<std::string> seen;
  for (const Argument& argument : AllArguments()) {
    EXPECT_TRUE(seen.insert(argument.name).second) << argument.name;
    EXPECT_FALSE(argument.name.starts_with("-")) << argument.name;
    EXPECT_FALSE(argument.note.empty()) << argument.name;
    if (argument.alias.empty()) continue;
    EXPECT_TRUE(seen.insert(argument.alias).second) << argument.alias;
  }
}

TEST(ArgumentsTest, HoldsMegatronsArgumentsByTheHundred) {
  EXPECT_GE(AllArguments().size(), 400u);
  const auto count = [](ArgumentClass kind) {
    return std::count_if(AllArguments().begin(), AllArguments().end(),
                         [kind](const Argument& argument) { return argument.kind == kind; });
  };
  EXPECT_GE(count(ArgumentClass::kModelled), 60);
  EXPECT_GE(count(ArgumentClass::kIgnored), 250);
  EXPECT_GE(count(ArgumentClass::kRefused), 90);
}

struct Expected {
  const char* name;
  Arity arity;
  ArgumentClass kind;
};

class KnownArgumentTest : public testing::TestWithParam<Expected> {};

TEST_P(KnownArgumentTest, HasItsArityAndClass) {
  const Argument* argument = FindArgument(GetParam().name);
  ASSERT_NE(argument, nullptr) << GetParam().name;
  EXPECT_EQ(argument->arity, GetParam().arity);
  EXPECT_EQ(Name(argument->kind), Name(GetParam().kind));
}

INSTANTIATE_TEST_SUITE_P(
    Megatron, KnownArgumentTest,
    testing::Values(Expected{"tensor-model-parallel-size", Arity::kOne, ArgumentClass::kModelled},
                    Expected{"tp", Arity::kOne, ArgumentClass::kModelled},
                    Expected{"sequence-parallel", Arity::kNone, ArgumentClass::kModelled},
                    Expected{"group-query-attention", Arity::kNone, ArgumentClass::kModelled},
                    Expected{"rotary-percent", Arity::kOne, ArgumentClass::kModelled},
                    Expected{"num-experts", Arity::kOne, ArgumentClass::kRefused},
                    Expected{"pipeline-model-parallel-size", Arity::kOne, ArgumentClass::kModelled},
                    Expected{"bf16", Arity::kNone, ArgumentClass::kModelled},
                    Expected{"use-distributed-optimizer", Arity::kNone, ArgumentClass::kModelled},
                    Expected{"use-custom-fsdp", Arity::kNone, ArgumentClass::kModelled},
                    Expected{"ddp-bucket-size", Arity::kOne, ArgumentClass::kModelled},
                    Expected{"use-torch-fsdp2", Arity::kNone, ArgumentClass::kRefused},
                    Expected{"ddp-reduce-scatter-with-fp32-accumulation", Arity::kNone,
                             ArgumentClass::kRefused},
                    Expected{"rampup-batch-size", Arity::kAny, ArgumentClass::kRefused},
                    Expected{"load", Arity::kOne, ArgumentClass::kRefused},
                    Expected{"save", Arity::kOne, ArgumentClass::kIgnored},
                    Expected{"log-interval", Arity::kOne, ArgumentClass::kIgnored},
                    Expected{"data-path", Arity::kAny, ArgumentClass::kIgnored},
                    Expected{"use-flash-attn", Arity::kNone, ArgumentClass::kIgnored},
                    Expected{"no-gradient-accumulation-fusion", Arity::kNone,
                             ArgumentClass::kIgnored},
                    Expected{"moe-aux-loss-coeff", Arity::kSome, ArgumentClass::kIgnored}),
    [](const testing::TestParamInfo<Expected>& info) {
      std::string name = info.param.name;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

TEST(ArgumentsTest, NearestArgumentCorrectsTypos) {
  EXPECT_EQ(NearestArgument("tensor-model-paralel-size"), "tensor-model-parallel-size");
  EXPECT_EQ(NearestArgument("hiden-size"), "hidden-size");
  EXPECT_EQ(NearestArgument("num-layer"), "num-layers");
  EXPECT_EQ(NearestArgument("swigul"), "swiglu");
  EXPECT_EQ(NearestArgument("qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq"), "");
}

TEST(ArgumentsTest, NearestWordPrefersTheFirstOfEquallyNear) {
  EXPECT_EQ(NearestWord("verfy", {"layout", "verify", "verily"}), "verify");
  EXPECT_EQ(NearestWord("ab", {"ba"}), "ba");
  EXPECT_EQ(NearestWord("", {"verify"}), "");
  EXPECT_EQ(NearestWord("verify", {}), "");
}

TEST(ArgumentsTest, NeutralValuesAreComparedAsTextAndAsNumbers) {
  const Argument& warmup = *FindArgument("lr-warmup-fraction");
  EXPECT_TRUE(IsNeutral(warmup, "0"));
  EXPECT_TRUE(IsNeutral(warmup, "0.0"));
  EXPECT_FALSE(IsNeutral(warmup, "0.01"));
  EXPECT_TRUE(IsNeutral(*FindArgument("lr-decay-style"), "constant"));
  EXPECT_FALSE(IsNeutral(*FindArgument("lr-decay-style"), "cosine"));
  EXPECT_FALSE(IsNeutral(*FindArgument("load"), ""));
  Argument two;
  two.neutral = "1|none";
  EXPECT_TRUE(IsNeutral(two, "1"));
  EXPECT_TRUE(IsNeutral(two, "none"));
  EXPECT_FALSE(IsNeutral(two, "1|none"));
}

}  // namespace
}  // namespace plumbline
