// Mistakes of pipelines, planted from outside, each with its clean twin: found where they happen.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "base/error.h"
#include "scenarios/planted.h"
#include "scenarios/planted_pipeline.h"
#include "scenarios/verify.h"
#include "tests/scenarios/scenario_testing.h"

namespace plumbline {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

// tp 2 x dp 2 x pp 4, four layers, tied embeddings, dropout; stage s holds ranks 4s to 4s + 3, of
// which the first two are of data-parallel coordinate 0. Three microbatches a rank.
Scenario FourStages() {
  Scenario scenario = MakeScenario(NamedModels()[0], {2, 2, true}, 3);
  scenario.config.model.num_layers = 4;
  scenario.config.model.tied_embeddings = true;
  scenario.config.model.hidden_dropout = 0.1;
  scenario.config.parallel.pp = 4;
  return scenario;
}

Scenario TwoStagesOfTwoChunks() {
  Scenario scenario = FourStages();
  scenario.config.parallel.pp = 2;
  scenario.config.parallel.virtual_stages = 2;
  scenario.config.train.global_batch_size = 2 * 2 * 4;
  return scenario;
}

Scenario Recomputing() {
  Scenario scenario = FourStages();
  scenario.config.parallel.recompute_granularity = RecomputeGranularity::kFull;
  return scenario;
}

// A row of `plumbline plants`, and how it is found.
struct Mistake {
  std::string name;
  Scenario (*make)();
  FindingClass kind;
  std::string site;        // of the first finding
  std::vector<int> ranks;  // of the first finding
  std::string says;        // in its message or formula
};
void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.name; }

const std::vector<int>& FirstAndLastStage() {
  static const std::vector<int> ranks = {0, 1, 2, 3, 12, 13, 14, 15};
  return ranks;
}

std::vector<Mistake> MessageMistakes() {
  return {
      {"wrong-microbatch-activation",
       FourStages,
       FindingClass::kValueMismatch,
       "step 1 microbatch 2 forward decoder.layers.1.mlp_bda value",
       {8},
       "actual = the reference's value of step 1 microbatch 0"},
      {"swapped-microbatches",
       TwoStagesOfTwoChunks,
       FindingClass::kCollectiveMismatch,
       "step 1 microbatch 2 chunk 0 forward decoder.layers.0.mlp_bda value",
       {0, 4},
       "recv f64[8, 2, 32] from rank 0 tag 9 step 1 microbatch 0"},
      {"crossed-send-recv",
       FourStages,
       FindingClass::kDeadlock,
       "step 1 microbatch 2 forward decoder.layers.2.mlp_bda value",
       {13},
       "cycle"},
      {"wrong-peer",
       FourStages,
       FindingClass::kDeadlock,
       "step 1 microbatch 0 forward decoder.layers.1.mlp_bda value",
       {4},
       "rank 4 in send f64[8, 2, 32] to rank 12"},
  };
}

std::vector<Mistake> TiedEmbeddingMistakes() {
  const std::vector<int> all = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return {
      {"tied-gradient-not-summed", FourStages, FindingClass::kValueMismatch,
       "step 1 finalize embedding.word_embeddings.weight main_grad", FirstAndLastStage(),
       "sum over embedding of actual = reference; stage 0 lacks the term of stage 3"},
      {"tied-gradient-summed-twice", FourStages, FindingClass::kValueMismatch,
       "step 1 finalize embedding.word_embeddings.weight main_grad", FirstAndLastStage(),
       "actual = 2 (stages that hold the table, tp, or dp) * reference"},
      {"tied-gradient-summed-early", FourStages, FindingClass::kValueMismatch,
       "step 1 finalize embedding.word_embeddings.weight main_grad", FirstAndLastStage(),
       "embedding{0,12}"},
      {"tied-table-counted-twice", FourStages, FindingClass::kValueMismatch,
       "step 1 norm grad_norm value", all, ""},
  };
}

std::vector<Mistake> StepMistakes() {
  return {
      {"loss-not-divided",
       FourStages,
       FindingClass::kValueMismatch,
       "step 1 microbatch 0 backward output_layer gradient",
       {12, 13},
       "actual = 3 (num_microbatches) * reference"},
      {"loss-divided-twice",
       FourStages,
       FindingClass::kValueMismatch,
       "step 1 microbatch 0 backward output_layer gradient",
       {12, 13},
       "actual = 1/3 (1/num_microbatches) * reference"},
      {"stage-local-layer-number",
       FourStages,
       FindingClass::kMissingTensor,
       "step 0 init decoder.layers.0.input_layernorm.weight parameter",
       {4},
       "shown by a rank of pipeline stage 1"},
      {"gradients-reduced-early", FourStages, FindingClass::kValueMismatch,
       "step 1 finalize embedding.word_embeddings.weight main_grad", FirstAndLastStage(),
       "a reduction over dp is missing"},
      {"skipped-backward",
       FourStages,
       FindingClass::kMissingTensor,
       "step 1 microbatch 2 backward decoder.layers.2.mlp_bda gradient",
       {8, 9},
       "never shown"},
      {"recompute-new-mask",
       Recomputing,
       FindingClass::kValueMismatch,
       "step 1 microbatch 0 backward decoder.layers.3.mlp.linear_fc2 gradient",
       {12, 13},
       ""},
      {"stage-skips-a-batch",
       FourStages,
       FindingClass::kValueMismatch,
       "step 1 microbatch 2 forward decoder.layers.1.self_attention.core_attention value",
       {4, 5},
       ""},
  };
}

std::vector<Mistake> Mistakes() {
  std::vector<Mistake> all;
  for (const auto& part : {MessageMistakes(), TiedEmbeddingMistakes(), StepMistakes()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

class PipelineMistakeTest : public ::testing::TestWithParam<Mistake> {};

TEST_P(PipelineMistakeTest, IsFoundAndItsCleanTwinIsSilent) {
  const Mistake& mistake = GetParam();
  const Verdict clean = VerifyText(mistake.make());
  EXPECT_TRUE(clean.pass) << Describe(clean);

  Scenario scenario = mistake.make();
  Plant(mistake.name, scenario);
  const Verdict verdict = VerifyText(scenario);
  EXPECT_FALSE(verdict.pass);
  ASSERT_FALSE(verdict.findings.empty()) << Describe(verdict);
  const Finding& found = verdict.findings.front();
  EXPECT_EQ(found.kind, mistake.kind) << Describe(verdict);
  EXPECT_EQ(ToString(found.site), mistake.site) << Describe(verdict);
  EXPECT_EQ(found.ranks, mistake.ranks) << Describe(verdict);
  EXPECT_THAT(found.message + found.formula, HasSubstr(mistake.says)) << Describe(verdict);
}

INSTANTIATE_TEST_SUITE_P(All, PipelineMistakeTest, ::testing::ValuesIn(Mistakes()),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(PipelineMistakesTest, AllOfThemAreHere) {
  std::vector<std::string> planted;
  for (const Planted& mistake : PlantedPipelineMistakes()) planted.push_back(mistake.name);
  std::vector<std::string> tested;
  for (const Mistake& mistake : Mistakes()) tested.push_back(mistake.name);
  EXPECT_THAT(tested, ::testing::UnorderedElementsAreArray(planted));
}

// Without fingerprints nothing but the values tells.
TEST(PipelineMistakesTest, SwappedMicrobatchesShowInTheValues) {
  Scenario scenario = TwoStagesOfTwoChunks();
  Plant("swapped-microbatches", scenario);
  scenario.world.fingerprint = false;
  const Verdict verdict = VerifyText(scenario);
  ASSERT_FALSE(verdict.findings.empty()) << Describe(verdict);
  const Finding& found = verdict.findings.front();
  EXPECT_EQ(found.kind, FindingClass::kValueMismatch);
  EXPECT_EQ(ToString(found.site), "step 1 microbatch 0 forward decoder.layers.0.mlp_bda value");
  EXPECT_EQ(found.ranks, (std::vector<int>{4, 5}));
  EXPECT_EQ(found.places, (std::vector<PipelinePlace>{{1, 0}}));
  EXPECT_EQ(found.formula, "actual = the reference's value of step 1 microbatch 2");
  EXPECT_THAT(found.message, HasSubstr("ranks 4,5 (stage 1 chunk 0) tp{4,5}: "));
}

TEST(PipelineMistakesTest, CrossedMessagesPrintTheirCycleUnderEachScheduleThatWaits) {
  for (const char* schedule : {"1f1b", "zb-h1", "zb-h2"}) {
    for (const int pp : {2, 4}) {
      Scenario scenario = FourStages();
      scenario.config.parallel.pp = pp;
      scenario.config.parallel.schedule = schedule;
      scenario.config.model.num_layers = 8;
      scenario.config.train.global_batch_size = 2 * 2 * 4;
      Plant("crossed-send-recv", scenario);
      const Verdict verdict = VerifyText(scenario);
      ASSERT_FALSE(verdict.findings.empty()) << schedule << " pp " << pp;
      EXPECT_EQ(verdict.findings.front().kind, FindingClass::kDeadlock) << Describe(verdict);
      EXPECT_THAT(verdict.findings.front().message,
                  MatchesRegex("(.|\n)*cycle: rank [0-9]+ waits for rank [0-9]+ waits for rank.*"));
    }
  }
}

TEST(PipelineMistakesTest, WhatAMistakeNeedsIsSaid) {
  const auto refusal = [](const std::string& name, Scenario scenario) -> std::string {
    try {
      Plant(name, scenario);
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "";
  };
  Scenario flat = MakeScenario(NamedModels()[0], {2, 2, true}, 3);
  for (const Planted& mistake : PlantedPipelineMistakes()) {
    const bool anywhere =
        mistake.name.starts_with("loss-") || mistake.name == "gradients-reduced-early";
    EXPECT_EQ(refusal(mistake.name, flat).empty(), anywhere) << mistake.name;
  }
  Scenario gpipe = FourStages();
  gpipe.config.parallel.schedule = "gpipe";
  EXPECT_THAT(refusal("crossed-send-recv", gpipe), HasSubstr("alternates forwards and backwards"));
  EXPECT_THAT(refusal("crossed-send-recv", TwoStagesOfTwoChunks()),
              HasSubstr("alternates forwards and backwards"));
  EXPECT_THAT(refusal("recompute-new-mask", FourStages()),
              HasSubstr("--recompute-granularity full"));
  Scenario untied = FourStages();
  untied.config.model.tied_embeddings = false;
  EXPECT_THAT(refusal("tied-gradient-not-summed", untied), HasSubstr("tied embeddings"));
  EXPECT_THAT(refusal("wrong-peer", TwoStagesOfTwoChunks()), HasSubstr("above 2"));
}

}  // namespace
}  // namespace plumbline
