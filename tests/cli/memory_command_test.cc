// plumbline memory: what it prints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/commands.h"

namespace plumbline {
namespace {

using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

std::string Output(Words words) {
  words.insert(words.begin(), "memory");
  std::ostringstream out;
  std::ostringstream err;
  EXPECT_EQ(RunMemory(ParseCommandLine(words), {out, err}), 0);
  return out.str();
}

TEST(MemoryCommandTest, MeasuresEveryStateBesideFormulaAndLayout) {
  const Json json = Json::parse(
      Output({"--dp", "3", "--bf16", "--use-distributed-optimizer", "--pp", "2", "--json"}));
  EXPECT_EQ(json["formula"], "6 + 12/d");
  ASSERT_EQ(json["holders"].size(), 6u);
  size_t ranks = 0;
  for (const Json& holder : json["holders"]) {
    ranks += holder["ranks"].size();
    ASSERT_EQ(holder["states"].size(), 3u);
    for (const Json& state : holder["states"]) EXPECT_EQ(state["measured"], state["layout"]);
    EXPECT_GT(holder["padding"], 0);
    EXPECT_GT(holder["peaks"]["activation"], 0);
  }
  EXPECT_EQ(ranks, 12u);
}

TEST(MemoryCommandTest, TextSaysWhatTheFormulaLeavesOut) {
  const std::string text = Output({"--fp16", "--tp", "1", "--dp", "2"});
  EXPECT_THAT(text,
              HasSubstr("f16 weights, f16 gradients, adam, no_shard: 20 bytes per parameter"));
  EXPECT_THAT(text, HasSubstr("weights 2, main gradients 2, gradient copies 4, master weights 4, "
                              "moments 8\n"));
  EXPECT_THAT(text, HasSubstr("left out by the formula: padding of buffers"));
  EXPECT_THAT(text, HasSubstr("cast while it is read"));
  EXPECT_THAT(text, HasSubstr("communication"));
  EXPECT_THAT(Output({"--dtype", "f32"}), Not(HasSubstr("cast while it is read")));
}

TEST(MemoryCommandTest, WithoutAMeasurementAnySizeWillDo) {
  const Json json =
      Json::parse(Output({"--num-layers", "32", "--hidden-size", "4096", "--num-attention-heads",
                          "32", "--tp", "1", "--dp", "64", "--cp", "2", "--dtype", "f32",
                          "--use-distributed-optimizer", "--measure", "no", "--json"}));
  EXPECT_EQ(json["formula"], "8 + 8/d");
  EXPECT_EQ(json["holders"].size(), 128u);
  EXPECT_EQ(json["holders"][0]["states"][0]["measured"], nullptr);
  EXPECT_FALSE(json["holders"][0].contains("peaks"));
  EXPECT_THROW(Output({"--measure", "perhaps"}), InvalidArgument);
}

}  // namespace
}  // namespace plumbline
