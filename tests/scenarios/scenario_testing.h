// Scenarios that hide nothing, for the tests of verdicts.
#ifndef PLUMBLINE_TESTS_SCENARIOS_SCENARIO_TESTING_H_
#define PLUMBLINE_TESTS_SCENARIOS_SCENARIO_TESTING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/config.h"
#include "scenarios/scenario.h"
#include "scenarios/verify.h"

namespace plumbline {

struct NamedModel {
  std::string name;
  TransformerConfig model;
  TrainConfig train;  // the batch size is set by the layout
};

// Five models on which every layout of 1, 2, 4 and 8 tensor-parallel ranks is legal. Between them:
// both norms, four activations, learned, no and three kinds of rotary positions, 1 to 4 groups for
// 8 heads, biases everywhere, for QKV alone and nowhere, tied and untied, both vocabulary paddings
// of a vocabulary that nothing divides, dropout, label smoothing, masks, packed documents, both
// losses, Adam and SGD, clipping that acts, that does not, and none.
std::vector<NamedModel> NamedModels();

struct Layout {
  int tp = 1;
  int dp = 1;
  bool sequence_parallel = false;
  GqaPolicy gqa_policy = GqaPolicy::kGatherQkv;
};
// Every tp x dp of 1 to 8 ranks, with and without sequence parallelism.
std::vector<Layout> LayoutsUpTo8();
std::string NameOf(const Layout& layout);  // "tp2dp3sp"

// `microbatches` per data-parallel rank, of 2 samples each.
Scenario MakeScenario(const NamedModel& model, const Layout& layout, int microbatches = 2);

// Over the text of the licence.
Verdict VerifyText(const Scenario& scenario);

// All findings, a line each, and what was compared: for messages of tests.
std::string Describe(const Verdict& verdict);

}  // namespace plumbline

#endif  // PLUMBLINE_TESTS_SCENARIOS_SCENARIO_TESTING_H_
