// The program as a person runs it: words in, exit status and text out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace plumbline {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

struct Outcome {
  int status = -1;
  std::string out;
  std::string err;
};

std::string ReadAll(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

std::string InTempDir(const std::string& name) { return testing::TempDir() + "/" + name; }

// `words` as a shell reads them; `environment` as "NAME=value ...".
Outcome Plumbline(const std::string& words, const std::string& environment = "") {
  const std::string out = InTempDir("out");
  const std::string err = InTempDir("err");
  const std::string command = environment + " cli/plumbline " + words + " >" + out + " 2>" + err;
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, ReadAll(out), ReadAll(err)};
}

std::string DataFile() {
  const std::string path = InTempDir("text.txt");
  std::ofstream(path)
      << "A plumb line shows what is truly vertical, however crooked the wall beside "
         "it. It does so without any opinion on the wall.\n";
  return path;
}

class ErrorTest : public testing::TestWithParam<const char*> {};

TEST_P(ErrorTest, TakesOneLineOnStandardErrorAndExitsWithTwo) {
  const Outcome outcome = Plumbline(GetParam());
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, StartsWith("plumbline: "));
  EXPECT_EQ(outcome.err.find('\n'), outcome.err.size() - 1) << outcome.err;
}

INSTANTIATE_TEST_SUITE_P(
    Errors, ErrorTest,
    testing::Values(
        "", "verfy", "verify --hiden-size 4", "verify --hidden-size", "verify --hidden-size abc",
        "verify --hidden-size 1.5", "verify --hidden-size 99999999999999999999",
        "verify --hidden-size 1000000000", "verify --num-layers 0", "verify --num-layers -3",
        "verify --tp 3", "verify --data /no/such/file", "verify --data /",
        "verify --data /dev/null", "verify --config /no/such/file", "verify --num-experts 8",
        "verify --cp 4", "verify --pp 3 --num-layers 4", "verify --virtual 2",
        "verify --pp 2 --schedule interleaved", "verify --bf16 --fp16 --json",
        "verify --plant nothing", "verify stray", "verify --tp 1 --plant row-bias-on-every-rank",
        "verify --num-layers 100000 --hidden-size 65536", "verify --lr nan", "golden",
        "golden /no/such/file", "golden README.md", "layout --tp 0", "layout --order tp-tp",
        "layout --pp 2 --order tp-dp", "layout --param nothing", "layout --tp 99999 --dp 99999"));

TEST(ProgramTest, HelpAndListsGoToStandardOutput) {
  for (const char* words : {"--help", "verify --help", "layout -h", "golden --help", "--version",
                            "plants", "arguments"}) {
    const Outcome outcome = Plumbline(words);
    EXPECT_EQ(outcome.status, 0) << words;
    EXPECT_NE(outcome.out, "") << words;
    EXPECT_EQ(outcome.err, "") << words;
  }
}

TEST(ProgramTest, VerifyPassesInPlainTextThroughAPipe) {
  const Outcome outcome =
      Plumbline("verify --tp 2 --sp --train-iters 2 --log-interval 5 --data " + DataFile());
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(outcome.out, HasSubstr("\nPASS  "));
  EXPECT_THAT(outcome.out, HasSubstr("--num-layers 2"));
  EXPECT_THAT(outcome.out, HasSubstr("--log-interval (no effect on values)"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("\033")));
}

TEST(ProgramTest, SequenceParallelismOnOneRankIsSwitchedOffInOneLine) {
  const Outcome outcome = Plumbline("verify --tp 1 --sp --train-iters 1 --data " + DataFile());
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, HasSubstr("--sequence-parallel is switched off"));
}

TEST(ProgramTest, PathsCountFromWhereThePersonIs) {
  DataFile();
  const std::string here = "BUILD_WORKING_DIRECTORY=" + testing::TempDir();
  EXPECT_EQ(Plumbline("verify --train-iters 1 --data text.txt", here).status, 0);
  EXPECT_EQ(Plumbline("verify --train-iters 1 --data text.txt").status, 2);
}

TEST(ProgramTest, TheSameArgumentsGiveTheSameBytes) {
  const std::string words = "verify --tp 2 --sp --seed 5 --json --data " + DataFile();
  const Outcome first = Plumbline(words);
  EXPECT_EQ(first.status, 0);
  EXPECT_EQ(Plumbline(words).out, first.out);
  const std::string other =
      Plumbline("verify --tp 2 --sp --seed 6 --json --data " + DataFile()).out;
  EXPECT_NE(other, first.out);
}

TEST(ProgramTest, SchedulesChangeNothingThatIsCompared) {
  Json expected;
  for (int seed = 1; seed <= 10; ++seed) {
    const Outcome outcome = Plumbline("verify --tp 2 --sp --train-iters 1 --json --schedule-seed " +
                                      std::to_string(seed));
    ASSERT_EQ(outcome.status, 0);
    const Json compared = Json::parse(outcome.out)["compared"];
    if (seed == 1) expected = compared;
    EXPECT_EQ(compared, expected) << "schedule seed " << seed;
  }
}

TEST(ProgramTest, JsonFollowsItsSchema) {
  const Outcome outcome = Plumbline("verify --tp 2 --json --train-iters 1 --data " + DataFile());
  ASSERT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.err, "");
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(json.at("verdict"), "pass");
  EXPECT_EQ(json.at("seed"), 1234);
  EXPECT_EQ(json.at("config").at("tensor_model_parallel_size"), 2);
  EXPECT_EQ(json.at("config").at("vocab_size"), 251);
  EXPECT_EQ(json.at("world_size"), 4);
  EXPECT_EQ(json.at("data").at("file"), DataFile());
  EXPECT_EQ(json.at("completed"), true);
  EXPECT_TRUE(json.at("findings").empty());
  EXPECT_EQ(json.at("more_findings"), 0);
  EXPECT_FALSE(json.contains("timings"));
  ASSERT_FALSE(json.at("compared").empty());
  for (const Json& compared : json.at("compared")) {
    EXPECT_TRUE(compared.at("quantity").is_string());
    EXPECT_GT(compared.at("tensors").get<int64_t>(), 0);
    EXPECT_GT(compared.at("values").get<int64_t>(), 0);
    EXPECT_TRUE(compared.at("worst").get<double>() <= compared.at("bound").get<double>());
    EXPECT_TRUE(compared.at("where").is_null() || compared.at("where").contains("tensor"));
  }
  EXPECT_TRUE(
      Json::parse(Plumbline("verify --train-iters 1 --json --timings").out).contains("timings"));
}

TEST(ProgramTest, LowPrecisionHasUnitsAndFloors) {
  const Outcome text = Plumbline("verify --bf16 --train-iters 1 --data " + DataFile());
  EXPECT_EQ(text.status, 0) << text.out << text.err;
  EXPECT_THAT(text.out, HasSubstr("in units of 2^-8 (bf16); floor: the worst of 4 one-rank runs"));
  const Outcome outcome = Plumbline("verify --fp16 --json --train-iters 1 --data " + DataFile());
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const Json json = Json::parse(outcome.out);
  const Json& of = json.at("low_precision");
  EXPECT_EQ(of.at("dtype"), "f16");
  EXPECT_EQ(of.at("unit"), 0x1p-11);
  EXPECT_EQ(of.at("multiple"), 4);
  EXPECT_EQ(of.at("runs"), 4);
  for (const Json& compared : json.at("compared")) {
    EXPECT_LE(compared.at("worst"), compared.at("bound")) << compared;
    if (compared.at("quantity") == "main_grad") {
      EXPECT_GT(compared.at("floor"), 0) << compared;
    }
  }
  const Outcome wide = Plumbline("verify --json --train-iters 1");
  EXPECT_FALSE(Json::parse(wide.out).contains("low_precision"));
}

TEST(ProgramTest, AFindingHasAllItsMembersAndRepeats) {
  const std::string words =
      "verify --tp 2 --sp --plant sp-norm-gradient-not-summed --data " + DataFile();
  const Outcome outcome = Plumbline(words + " --json");
  ASSERT_EQ(outcome.status, 1);
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(json.at("verdict"), "fail");
  ASSERT_FALSE(json.at("findings").empty());
  const Json& finding = json.at("findings")[0];
  for (const char* member : {"class", "group", "actual", "reference", "formula", "message"}) {
    EXPECT_TRUE(finding.at(member).is_string()) << member;
  }
  EXPECT_TRUE(finding.at("residual").is_number() || finding.at("residual").is_string());
  EXPECT_FALSE(finding.at("ranks").empty());
  const Json& site = finding.at("site");
  EXPECT_EQ(site.at("step"), 1);
  EXPECT_EQ(site.at("phase"), "finalize");
  EXPECT_THAT(site.at("tensor").get<std::string>(), HasSubstr("layernorm"));
  EXPECT_TRUE(site.contains("layer"));
  EXPECT_TRUE(site.contains("microbatch"));

  // The repeat line gives the same findings.
  const std::string repeat = finding.at("repeat");
  ASSERT_THAT(repeat, StartsWith("plumbline verify "));
  const Outcome again = Plumbline(repeat.substr(std::string("plumbline ").size()) + " --json");
  EXPECT_EQ(Json::parse(again.out).at("findings"), json.at("findings"));
  EXPECT_EQ(Plumbline(words).status, 1);
  EXPECT_THAT(Plumbline(words).out, HasSubstr("\nFAIL  "));
}

// Each in the first of these runs that has what it needs.
TEST(ProgramTest, EveryPlantedMistakeIsFoundAndItsCleanTwinPasses) {
  const std::vector<std::string> setups = {
      "verify --train-iters 2 --tp 2 --dp 3 --sp ",
      "verify --train-iters 2 --tp 2 --pp 4 --dp 1 --num-layers 4 --recompute-granularity full ",
      "verify --train-iters 2 --dp 2 --pp 2 --num-layers 2 --use-distributed-optimizer "
      "--overlap-grad-reduce --overlap-param-gather --schedule-seed 1 ",
      "verify --train-iters 2 --dp 2 --use-megatron-fsdp --overlap-grad-reduce "
      "--data-parallel-sharding-strategy optim_grads ",
      "verify --train-iters 2 --dp 1 --use-distributed-optimizer ",
      "verify --train-iters 2 --tp 2 --dp 2 --calculate-per-token-loss "};
  for (const std::string& setup : setups) EXPECT_EQ(Plumbline(setup).status, 0) << setup;
  std::istringstream lines(Plumbline("plants").out);
  std::string line;
  std::set<std::string> names;
  while (std::getline(lines, line)) {
    const std::string name = line.substr(0, line.find(' '));
    EXPECT_TRUE(names.insert(name).second) << name << " is there twice";
    Outcome outcome;
    for (const std::string& setup : setups) {
      outcome = Plumbline(setup + "--plant " + name);
      if (outcome.status != 2) break;
      EXPECT_THAT(outcome.err, HasSubstr("--plant " + name + ": needs "));
    }
    EXPECT_EQ(outcome.status, 1) << name << "\n" << outcome.out << outcome.err;
  }
  EXPECT_GE(names.size(), 30U);
}

TEST(ProgramTest, ALaunchLineCanBePasted) {
  const Outcome outcome = Plumbline(
      "verify torchrun --nproc-per-node 4 --nnodes 1 pretrain_gpt.py "
      "--tensor-model-parallel-size 2 --sequence-parallel --num-layers 1 --hidden-size 64 "
      "--num-attention-heads 8 --group-query-attention --num-query-groups 2 --swiglu "
      "--normalization RMSNorm --position-embedding-type rope --disable-bias-linear "
      "--untie-embeddings-and-output-weights --micro-batch-size 1 --global-batch-size 4 "
      "--seq-length 16 --lr 1e-3 --lr-decay-style constant --train-iters 1 --use-flash-attn "
      "--data-path 0.5 a 0.5 b --tokenizer-type GPT2BPETokenizer --save x --log-interval 1 "
      "--json");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(json.at("world_size"), 4);
  EXPECT_EQ(json.at("config").at("swiglu"), true);
  EXPECT_EQ(json.at("ignored").size(), 5u);
}

TEST(ProgramTest, LayoutNamesPartnersAndPieces) {
  const Outcome text = Plumbline("layout --tp 2 --pp 2 --dp 2 --order tp-pp-dp");
  EXPECT_EQ(text.status, 0);
  EXPECT_THAT(text.out, HasSubstr("{0,4}"));
  const Outcome outcome =
      Plumbline("layout --tp 2 --pp 2 --dp 2 --order tp-pp-dp --json --param all");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(json.at("groups").at("dp")[0], Json::array({0, 4}));
  EXPECT_EQ(json.at("groups").at("tp")[0], Json::array({0, 1}));
  EXPECT_EQ(json.at("groups").at("pp")[0], Json::array({0, 2}));
  EXPECT_EQ(json.at("ranks")[6].at("coordinates").at("dp"), 1);
  for (const Json& parameter : json.at("parameters")) {
    if (parameter.at("name") != "decoder.layers.1.mlp.linear_fc1.weight") continue;
    EXPECT_EQ(parameter.at("stages"), Json::array({1}));
    EXPECT_EQ(parameter.at("pieces")[0].at("ranks"), Json::array({2, 6}));
    EXPECT_EQ(parameter.at("pieces")[0].at("axes"), Json::parse("[[[0,127]],[[0,63]]]"));
    EXPECT_EQ(parameter.at("pieces")[1].at("axes"), Json::parse("[[[128,255]],[[0,63]]]"));
  }
}

TEST(ProgramTest, LayoutShowsInterleavedAndPaddedRows) {
  const Json json =
      Json::parse(Plumbline("layout --tp 2 --swiglu --ffn-hidden-size 8 --json --param "
                            "decoder.layers.0.mlp.linear_fc1.weight --param "
                            "embedding.word_embeddings.weight")
                      .out);
  const Json& table = json.at("parameters")[0];
  EXPECT_EQ(table.at("name"), "embedding.word_embeddings.weight");
  EXPECT_EQ(table.at("pieces")[1].at("axes")[0], Json::parse("[[126,250],[-1,-1]]"));
  const Json& fc1 = json.at("parameters")[1];
  EXPECT_EQ(fc1.at("pieces")[0].at("axes")[0], Json::parse("[[0,3],[8,11]]"));
  EXPECT_EQ(fc1.at("pieces")[1].at("axes")[0], Json::parse("[[4,7],[12,15]]"));
}

TEST(ProgramTest, GoldenFilesAreRepeated) {
  const std::string file = "tests/golden/llama_gqa_swiglu.safetensors";
  const Outcome outcome = Plumbline("golden " + file + " --json");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(json.at("verdict"), "pass");
  EXPECT_EQ(json.at("files")[0].at("file"), file);
  EXPECT_FALSE(json.at("files")[0].at("quantities").empty());
  EXPECT_THAT(Plumbline("golden " + file).out, HasSubstr("PASS"));
}

TEST(ProgramTest, AChangedGoldenFileFails) {
  std::string bytes = ReadAll("tests/golden/llama_gqa_swiglu.safetensors");
  ASSERT_GT(bytes.size(), 1000u);
  // The sign of the last double: some final value or other.
  bytes.back() = static_cast<char>(bytes.back() ^ 0x80);
  const std::string path = InTempDir("changed.safetensors");
  std::ofstream(path, std::ios::binary) << bytes;
  const Outcome outcome = Plumbline("golden " + path);
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("FAIL"));
}

TEST(ProgramTest, AFullDiskIsAnError) {
  EXPECT_EQ(std::system("cli/plumbline plants >/dev/full 2>/dev/null") >> 8, 2);
}

}  // namespace
}  // namespace plumbline
