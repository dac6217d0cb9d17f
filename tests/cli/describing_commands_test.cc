#include "cli/describing_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/data_parallel_rules.h"
#include "base/error.h"
#include "cli/data_parallel_options.h"

namespace plumbline {
namespace {

using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

int Run(const Words& words, const Console& console) {
  const CommandLine line = ParseCommandLine(words);
  if (line.command == "timeline") return RunTimeline(line, console);
  return line.command == "rules" ? RunRules(line, console) : RunBuffers(line, console);
}

std::string Output(const Words& words) {
  std::ostringstream out;
  std::ostringstream err;
  EXPECT_EQ(Run(words, {out, err}), 0);
  EXPECT_EQ(err.str(), "");
  return out.str();
}

std::string ErrorOf(const Words& words) {
  std::ostringstream out;
  std::ostringstream err;
  try {
    Run(words, {out, err});
  } catch (const Error& error) {
    EXPECT_EQ(out.str(), "");
    return error.what();
  }
  return "no error";
}

// One layer of width 8 with two heads, 10 words, no biases but the norms': small enough to count by
// hand.
Words Small(const std::string& command, Words more) {
  Words words = {command,   "--tp",
                 "1",       "--num-layers",
                 "1",       "--hidden-size",
                 "8",       "--num-attention-heads",
                 "2",       "--vocab-size",
                 "10",      "--position-embedding-type",
                 "none",    "--normalization",
                 "RMSNorm", "--disable-bias-linear"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(RulesCommandTest, PrintsEveryRuleWithItsSource) {
  const std::string text = Output({"rules"});
  for (const DataParallelRule& rule : DataParallelRules()) {
    EXPECT_THAT(text, HasSubstr("\n" + std::string(rule.name) + " (" +
                                std::string(Name(rule.source)) + ")\n"));
  }
  EXPECT_THAT(text, HasSubstr("  --overlap-param-gather needs --overlap-grad-reduce\n"));
  const Json json = Json::parse(Output({"rules", "--json"}));
  EXPECT_EQ(json["rules"].size(), DataParallelRules().size() + DataParallelFlagRules().size());
  EXPECT_EQ(json["rules"][0]["name"], "one-low-precision");
}

// Parameters: table 80; input norm 8, qkv 24 * 8 = 192, proj 64, norm 8, fc1 256, fc2 256; final
// norm 8. In reverse, starts aligned to 64: final 0..8, fc2 64..320, fc1 320..576, norm 576..584,
// proj 640..704, qkv 704..896, norm 896..904, table 960..1040; end at 1152 = 9 * 128. Shards of 288
// end at 288, within fc2, at 576, and at 864, within qkv.
TEST(BuffersCommandTest, ShardedBufferIsAsCountedByHand) {
  EXPECT_EQ(Output(Small("buffers", {"--dp", "4", "--use-distributed-optimizer", "--bf16"})),
            "stage 0 of 1: 872 elements and 280 of padding; one bucket, without --overlap-grad-re"
            "duce\n"
            "optim: buckets are shared out over 4 ranks\n"
            "\n"
            "chunk  buffer  parameters  gradients  elements  padding  buckets\n"
            "    0       0  bf16        f32            1152      280        1\n"
            "\n"
            "chunk  buffer  bucket  group  ready  begin   end  padding  parameters\n"
            "    0       0       0      0      0      0  1152      280           8\n"
            "\n"
            "chunk  buffer  bucket  group  begin   end  parameter                                "
            "           owners\n"
            "    0       0       0      0      0     8  decoder.final_layernorm.weight           "
            "           0 [0, 8)\n"
            "    0       0       0      0     64   320  decoder.layers.0.mlp.linear_fc2.weight   "
            "           0 [0, 224)  1 [224, 256)\n"
            "    0       0       0      0    320   576  decoder.layers.0.mlp.linear_fc1.weight   "
            "           1 [0, 256)\n"
            "    0       0       0      0    576   584  decoder.layers.0.pre_mlp_layernorm.weight"
            "           2 [0, 8)\n"
            "    0       0       0      0    640   704  decoder.layers.0.self_attention.linear_pr"
            "oj.weight  2 [0, 64)\n"
            "    0       0       0      0    704   896  decoder.layers.0.self_attention.linear_qk"
            "v.weight   2 [0, 160)  3 [160, 192)\n"
            "    0       0       0      0    896   904  decoder.layers.0.input_layernorm.weight  "
            "           3 [0, 8)\n"
            "    0       0       0      0    960  1040  embedding.word_embeddings.weight         "
            "           3 [0, 80)\n");
}

TEST(BuffersCommandTest, OneRankShowsWhatItOwns) {
  const std::string text = Output(
      Small("buffers", {"--dp", "2", "--pp", "1", "--use-distributed-optimizer", "--rank", "1"}));
  EXPECT_THAT(text, HasSubstr("rank 1: shard 1 of 2, with ranks 0, 1\n"));
  EXPECT_THAT(text, HasSubstr("own part"));
  EXPECT_THAT(text, Not(HasSubstr("  0 [0, 8)")));
}

TEST(BuffersCommandTest, EveryStageIsPrintedApart) {
  const Words words = {"buffers", "--pp", "2", "--overlap-grad-reduce"};
  const std::string text = Output(words);
  EXPECT_THAT(text, HasSubstr("stage 0 of 2: "));
  EXPECT_THAT(text, HasSubstr("stage 1 of 2: "));
  EXPECT_THAT(text, HasSubstr("buckets of at least 40000000 elements"));
  EXPECT_THAT(text, HasSubstr("one bucket, on stages after the first"));
  EXPECT_THAT(text, HasSubstr("all"));
}

TEST(BuffersCommandTest, JsonHoldsPlacesAndOwners) {
  const Json json =
      Json::parse(Output(Small("buffers", {"--dp", "2", "--use-distributed-optimizer", "--json"})));
  EXPECT_EQ(json["shards"], 2);
  const Json& buffer = json["stages"][0]["buffers"][0];
  EXPECT_EQ(buffer["elements"], 1152);
  EXPECT_EQ(buffer["buckets"][0]["unpadded_end"], 1040);
  EXPECT_EQ(buffer["buckets"][0]["unit"], nullptr);
  EXPECT_EQ(buffer["parameters"].size(), 8u);
  EXPECT_EQ(buffer["parameters"][7]["name"], "embedding.word_embeddings.weight");
  EXPECT_EQ(buffer["parameters"][7]["begin"], 960);
  EXPECT_EQ(buffer["parameters"][7]["owners"][0]["shard"], 1);
}

TEST(BuffersCommandTest, InstancesShareOutAmongTheirOwnRanks) {
  const Json json = Json::parse(Output(
      Small("buffers", {"--dp", "4", "--use-distributed-optimizer",
                        "--num-distributed-optimizer-instances", "2", "--rank", "3", "--json"})));
  EXPECT_EQ(json["shards"], 2);
  EXPECT_EQ(json["rank"]["shard"], 1);
  EXPECT_EQ(json["rank"]["with_ranks"], Json({2, 3}));
}

TEST(BuffersCommandTest, ErrorsAreOneLine) {
  EXPECT_THAT(ErrorOf({"buffers", "--rank", "4"}), HasSubstr("--rank 4: the layout has 4 ranks"));
  EXPECT_THAT(ErrorOf({"buffers", "--rank", "x"}), HasSubstr("--rank x: expected a whole number"));
  EXPECT_THAT(ErrorOf({"buffers", "--overlap-param-gather"}), HasSubstr("(rule "));
  EXPECT_THAT(ErrorOf({"verify", "--rank", "1"}), HasSubstr("unknown argument '--rank'"));
}

// At 1 ns per parameter forward and 2 backward a pass of the small model takes 872 and 1744. One
// bucket of 1152 f64 elements on two ranks at 1 byte a ns: 100 + 4608 ns each way. Nothing can
// overlap with a single bucket that has the embedding: its gather is needed first, its gradients
// come last.
TEST(TimelineCommandTest, OneBucketIsAlwaysExposed) {
  const std::string text = Output(
      Small("timeline",
            {"--dp", "2", "--global-batch-size", "4", "--use-distributed-optimizer", "--forward-ps",
             "1000", "--backward-ps", "2000", "--latency-ns", "100", "--bandwidth-gbs", "1"}));
  EXPECT_EQ(
      text,
      "stage 0 of 1: optim over 2 ranks, 1 microbatch, f64 weights, f64 gradients\n"
      "costs: forward 1000 ps and backward 2000 ps per parameter and microbatch; a collective "
      "100 ns and its bytes around a ring at 1 GB/s\n"
      "\n"
      "overlap   step  compute  communication  overlapped  exposed\n"
      "none     12032     2616           9416           0     9416\n"
      "grad     12032     2616           9416           0     9416\n"
      "param *  12032     2616           9416           0     9416\n"
      "both     12032     2616           9416           0     9416\n"
      "* of this model alone: Megatron refuses --overlap-param-gather without "
      "--overlap-grad-reduce\n"
      "\n"
      "overlap none\n"
      "collective  chunk  group  elements  ready  start    end  wait\n"
      "gather          0      0      1152      0      0   4708  4708\n"
      "reduce          0      0      1152   7324   7324  12032  4708\n");
}

TEST(TimelineCommandTest, BucketsOverlapAndJsonHoldsAllFour) {
  const Json json = Json::parse(
      Output(Small("timeline", {"--dp", "2", "--use-distributed-optimizer", "--ddp-bucket-size",
                                "200", "--latency-ns", "1", "--forward-ps", "100000",
                                "--backward-ps", "200000", "--json"})));
  const Json& timelines = json["timelines"];
  ASSERT_EQ(timelines.size(), 4u);
  EXPECT_EQ(timelines[3]["overlap"], "both");
  EXPECT_GT(timelines[3]["collectives"].size(), 2u);
  EXPECT_EQ(timelines[0]["exposed"], timelines[0]["communication"]);
  EXPECT_LT(timelines[1]["exposed"], timelines[0]["exposed"]);
  EXPECT_LT(timelines[3]["exposed"], timelines[1]["exposed"]);
}

TEST(TimelineCommandTest, ListsTheOverlapOfTheFlagsOrTheOneAskedFor) {
  EXPECT_THAT(Output(Small("timeline", {"--overlap-grad-reduce"})), HasSubstr("\noverlap grad\n"));
  EXPECT_THAT(Output(Small("timeline", {"--overlap", "param", "--use-distributed-optimizer"})),
              HasSubstr("\noverlap param\n"));
  EXPECT_THAT(Output(Small("timeline", {"--dp", "1"})), HasSubstr("no collectives"));
  EXPECT_THAT(ErrorOf(Small("timeline", {"--overlap", "all"})),
              HasSubstr("--overlap all: expected none, grad, param or both"));
  EXPECT_THAT(ErrorOf(Small("timeline", {"--stage", "1"})), HasSubstr("--stage 1: there are 1"));
}

TEST(TimelineCommandTest, TheTraceIsWholeOrNotThere) {
  const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "trace.json";
  std::filesystem::remove(file);
  Output(Small("timeline", {"--perfetto", file}));
  std::ifstream stream(file);
  EXPECT_FALSE(Json::parse(stream)["traceEvents"].empty());
  EXPECT_THAT(ErrorOf(Small("timeline", {"--perfetto", "/nonexistent/a.json"})),
              HasSubstr("--perfetto /nonexistent/a.json: No such file"));
}

}  // namespace
}  // namespace plumbline
