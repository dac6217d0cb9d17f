// Mistakes of pipelines, planted from outside, each with its clean twin: found where they happen.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "parallel/pipeline/schedule.h"
#include "scenarios/verify.h"
#include "tests/scenarios/plants.h"
#include "tests/scenarios/scenario_testing.h"

namespace plumbline {
namespace {

using ::testing::HasSubstr;

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

struct Mistake {
  std::string name;
  Scenario (*make)();
  Plant plant;
  FindingClass kind;
  std::string site;        // of the first finding
  std::vector<int> ranks;  // of the first finding
  std::string says;        // in its message or formula
};
void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.name; }

CallPredicate Message(CollectiveOp op, std::string tensor, Phase phase) {
  return [op, moves = Moves(std::move(tensor), phase)](const CollectiveCall& call, int rank) {
    return call.op == op && moves(call, rank);
  };
}

// The messages between stages 1 and 2 in front of layer 2.
constexpr const char* kBorder = "decoder.layers.1.mlp_bda";
constexpr const char* kTable = "embedding.word_embeddings.weight";

// The receiver uses what it received for its first microbatch for all of them.
void WrongMicrobatch(Scenario& scenario) {
  OnOneRank(8, [] {
    return FirstResultAgain(Message(CollectiveOp::kRecv, kBorder, Phase::kForward));
  })(scenario);
}

// Microbatches 0 and 1 of the receiver, each under the other's tag.
void SwappedMicrobatches(Scenario& scenario) {
  Mutate([](const Mesh& mesh, int rank) {
    std::vector<MutationRule> rules;
    if (mesh.CoordinateOf(rank, "pp") == 1) {
      rules.push_back(ChangeCall(
          [](const CollectiveCall& call, int) {
            return call.op == CollectiveOp::kRecv && call.site.phase == Phase::kForward &&
                   call.site.step == 1 && call.site.microbatch < 4;
          },
          [](CollectiveCall& call) { call.tag += call.site.microbatch < 2 ? 1 : -1; }));
    }
    return rules;
  })(scenario);
}

// Each stage sends first, then receives, one message after the other.
void CrossedMessages(Scenario& scenario) {
  scenario.policies.pipeline.change_schedule = [](Schedule& schedule) {
    for (std::vector<Operation>& stage : schedule.stages) {
      for (size_t i = 0; i + 1 < stage.size(); ++i) {
        if (!stage[i].with_next) continue;
        stage[i].with_next = false;
        if (!IsSend(stage[i].kind)) std::swap(stage[i], stage[i + 1]);
      }
    }
  };
}

void WrongPeer(Scenario& scenario) {
  OnOneRank(4, [] {
    return ChangeCall(Message(CollectiveOp::kSend, kBorder, Phase::kForward),
                      [](CollectiveCall& call) { call.peer = 3; });
  })(scenario);
}

const std::vector<int>& FirstAndLastStage() {
  static const std::vector<int> ranks = {0, 1, 2, 3, 12, 13, 14, 15};
  return ranks;
}

Plant Decide(void (*change)(Policies&)) {
  return [change](Scenario& scenario) { change(scenario.policies); };
}

std::vector<Mistake> MessageMistakes() {
  return {
      {"activation_of_the_wrong_microbatch",
       FourStages,
       WrongMicrobatch,
       FindingClass::kValueMismatch,
       "step 1 microbatch 2 forward decoder.layers.1.mlp_bda value",
       {8},
       "actual = the reference's value of step 1 microbatch 0"},
      {"swapped_microbatches",
       TwoStagesOfTwoChunks,
       SwappedMicrobatches,
       FindingClass::kCollectiveMismatch,
       "step 1 microbatch 2 chunk 0 forward decoder.layers.0.mlp_bda value",
       {0, 4},
       "recv f64[8, 2, 32] from rank 0 tag 9 step 1 microbatch 0"},
      {"swapped_microbatches_unmatched",
       TwoStagesOfTwoChunks,
       Both(SwappedMicrobatches, WithoutFingerprint),
       FindingClass::kValueMismatch,
       "step 1 microbatch 0 forward decoder.layers.0.mlp_bda value",
       {4, 5},
       "actual = the reference's value of step 1 microbatch 2"},
      {"crossed_messages",
       FourStages,
       CrossedMessages,
       FindingClass::kDeadlock,
       "step 1 microbatch 2 forward decoder.layers.2.mlp_bda value",
       {13},
       "cycle"},
      {"wrong_peer",
       FourStages,
       WrongPeer,
       FindingClass::kDeadlock,
       "step 1 microbatch 0 forward decoder.layers.1.mlp_bda value",
       {4},
       "rank 4 in send f64[8, 2, 32] to rank 12"},
  };
}

std::vector<Mistake> TiedEmbeddingMistakes() {
  const std::vector<int> all = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return {
      {"tied_gradient_not_summed", FourStages,
       Decide([](Policies& p) { p.tied_embedding.reductions = 0; }), FindingClass::kValueMismatch,
       "step 1 finalize embedding.word_embeddings.weight main_grad", FirstAndLastStage(), ""},
      {"tied_gradient_summed_twice", FourStages,
       Decide([](Policies& p) { p.tied_embedding.reductions = 2; }), FindingClass::kValueMismatch,
       "step 1 finalize embedding.word_embeddings.weight main_grad", FirstAndLastStage(),
       "actual = 2"},
      {"tied_gradient_summed_early", FourStages,
       Decide([](Policies& p) { p.tied_embedding.after_microbatch = [](int) { return 1; }; }),
       FindingClass::kValueMismatch, "step 1 finalize embedding.word_embeddings.weight main_grad",
       FirstAndLastStage(), "embedding{0,12}"},
      {"tied_copy_counts_in_the_norm", FourStages,
       Decide([](Policies& p) { p.tied_embedding.counts_copy = true; }),
       FindingClass::kValueMismatch, "step 1 norm grad_norm value", all, ""},
  };
}

std::vector<Mistake> StepMistakes() {
  return {
      {"loss_not_divided",
       FourStages,
       Decide([](Policies& p) { p.loss_divisor = [](int64_t) { return int64_t{1}; }; }),
       FindingClass::kValueMismatch,
       "step 1 microbatch 0 backward output_layer gradient",
       {12, 13},
       "actual = 3 (num_microbatches) * reference"},
      {"loss_divided_twice",
       FourStages,
       Decide([](Policies& p) { p.loss_divisor = [](int64_t m) { return m * m; }; }),
       FindingClass::kValueMismatch,
       "step 1 microbatch 0 backward output_layer gradient",
       {12, 13},
       "actual = 1/3 (1/num_microbatches) * reference"},
      {"stage_local_layer_number",
       FourStages,
       Decide([](Policies& p) { p.pipeline.layer_number = [](int, int, int32_t) { return 0; }; }),
       FindingClass::kMissingTensor,
       "step 0 init decoder.layers.0.input_layernorm.weight parameter",
       {4},
       "shown by a rank of pipeline stage 1"},
      {"reducer_before_the_last_microbatch", FourStages,
       Decide([](Policies& p) { p.data_parallel.after_microbatch = [](int m) { return m - 2; }; }),
       FindingClass::kValueMismatch, "step 1 finalize embedding.word_embeddings.weight main_grad",
       FirstAndLastStage(), "a reduction over dp is missing"},
      {"a_backward_left_out",
       FourStages,
       Decide([](Policies& p) {
         p.pipeline.runs_backward = [](int stage, int, int i) { return stage != 2 || i != 1; };
       }),
       FindingClass::kMissingTensor,
       "step 1 microbatch 2 backward decoder.layers.2.mlp_bda gradient",
       {8, 9},
       "never shown"},
      {"a_new_mask_in_the_recomputation",
       Recomputing,
       Decide([](Policies& p) {
         p.pipeline.recompute_mask_step = [](int32_t step) { return step + 1000; };
       }),
       FindingClass::kValueMismatch,
       "step 1 microbatch 0 backward decoder.layers.3.mlp.linear_fc2 gradient",
       {12, 13},
       ""},
      {"a_stage_advances_its_own_iterator",
       FourStages,
       Decide([](Policies& p) {
         p.pipeline.batches_skipped = [](int stage, int, int i) {
           return stage == 1 && i == 1 ? 1 : 0;
         };
       }),
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
  mistake.plant(scenario);
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
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace plumbline
