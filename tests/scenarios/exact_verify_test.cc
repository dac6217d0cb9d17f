// Every layout of up to 8 ranks equals the reference in every value, over a prime field.
#include <gtest/gtest.h>

#include <cmath>
#include <ostream>
#include <string>
#include <vector>

#include "base/error.h"
#include "scenarios/exact_bound.h"
#include "scenarios/verify.h"
#include "tests/base/sweep.h"
#include "tests/scenarios/scenario_testing.h"

namespace plumbline {
namespace {

struct Case {
  NamedModel model;
  Layout layout;
  int keys = 1;
  uint64_t seed = 1;  // of the keys
};

void PrintTo(const Case& one, std::ostream* out) {
  *out << one.model.name << "/" << NameOf(one.layout) << "/" << one.keys << " keys";
}

// Every layout runs on 8 keys.
std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const NamedModel& model : NamedModels()) {
    const auto add = [&](const Layout& layout) { cases.push_back({model, layout, 8, 1}); };
    for (Layout layout : LayoutsUpTo8()) {
      add(layout);
      if (model.model.num_query_groups >= layout.tp) continue;
      layout.gqa_policy = GqaPolicy::kReplicateKv;
      add(layout);
    }
  }
  return SweepOf(std::move(cases));
}

class ExactLayoutTest : public ::testing::TestWithParam<Case> {};

TEST_P(ExactLayoutTest, EveryValueIsEqual) {
  Scenario scenario = MakeScenario(GetParam().model, GetParam().layout);
  scenario.config.dtype = DType::kM61;
  scenario.exact.keys = GetParam().keys;
  scenario.exact.seed = GetParam().seed;
  const Verdict verdict = VerifyText(scenario);
  EXPECT_TRUE(verdict.pass) << Describe(verdict);
  ASSERT_TRUE(verdict.exact);
  EXPECT_EQ(verdict.exact->prime, (uint64_t{1} << 61) - 1);
  EXPECT_EQ(verdict.exact->keys, GetParam().keys);
  EXPECT_EQ(verdict.exact->void_runs, 0);
  EXPECT_EQ(verdict.exact->unequal, 0);
  EXPECT_GT(verdict.exact->values, 100000 * GetParam().keys);
  EXPECT_LT(verdict.exact->false_equality, 1e-11);
  for (const ComparedQuantity& quantity : verdict.compared) {
    EXPECT_EQ(quantity.worst, 0) << quantity.quantity;
    EXPECT_EQ(quantity.bound, 0) << quantity.quantity;
  }
}

INSTANTIATE_TEST_SUITE_P(All, ExactLayoutTest, ::testing::ValuesIn(AllCases()),
                         [](const auto& info) {
                           return info.param.model.name + "_" + NameOf(info.param.layout);
                         });

TEST(ExactVerifyTest, TheOtherPrimesAgree) {
  for (const NamedModel& model : NamedModels()) {
    for (const DType dtype : {DType::kP50, DType::kP31}) {
      Scenario scenario = MakeScenario(model, {4, 2, true});
      scenario.config.dtype = dtype;
      const Verdict verdict = VerifyText(scenario);
      EXPECT_TRUE(verdict.pass) << model.name << " " << Name(dtype) << "\n" << Describe(verdict);
      EXPECT_EQ(verdict.exact->unequal, 0);
    }
  }
}

// In a field any difference between two schedules is a race.
TEST(ExactVerifyTest, SchedulesGiveTheSameVerdict) {
  Scenario scenario = MakeScenario(NamedModels()[0], {2, 3, true});
  scenario.config.dtype = DType::kM61;
  const std::string expected = Describe(VerifyText(scenario));
  scenario.world.policy = SchedulePolicy::kRandom;
  for (scenario.world.seed = 1; scenario.world.seed <= 3; ++scenario.world.seed) {
    EXPECT_EQ(Describe(VerifyText(scenario)), expected) << "schedule " << scenario.world.seed;
  }
}

TEST(ExactVerifyTest, KeysAddUpAndStopAtTheFirstThatFails) {
  Scenario scenario = MakeScenario(NamedModels()[1], {2, 1, false});
  scenario.config.dtype = DType::kM61;
  scenario.config.train.steps = 1;
  const Verdict one = VerifyText(scenario);
  scenario.exact.keys = 3;
  const Verdict three = VerifyText(scenario);
  EXPECT_EQ(three.exact->keys, 3);
  EXPECT_EQ(three.exact->values, 3 * one.exact->values);
  EXPECT_NEAR(std::log(three.exact->false_equality), 3 * std::log(one.exact->false_equality), 1e-6);
  scenario.change_rank = [](int rank, RunConfig& config, Policies&) {
    if (rank == 1) config.train.lr *= 2;
  };
  const Verdict wrong = VerifyText(scenario);
  EXPECT_FALSE(wrong.pass);
  EXPECT_EQ(wrong.exact->keys, 1);
  EXPECT_GT(wrong.exact->unequal, 0);
}

// One step of one layer, a small prime.
Scenario TinyScenario() {
  NamedModel named = NamedModels()[1];
  named.model.num_layers = 1;
  named.model.hidden_size = 4;
  named.model.ffn_hidden_size = 4;
  named.model.num_attention_heads = 2;
  named.model.kv_channels = 2;
  named.model.vocab_size = 5;
  named.model.padded_vocab_size = 5;
  named.model.seq_length = 4;
  named.train.steps = 1;
  Scenario scenario = MakeScenario(named, {2, 1, false}, 1);
  scenario.config.dtype = DType::kP31;
  return scenario;
}

// With a prime of 101 a step divides by 0 now and then. Such runs are repeated, and said.
TEST(ExactVerifyTest, VoidRunsAreRepeatedWithTheNextKey) {
  Scenario scenario = TinyScenario();
  scenario.exact.small_prime = 101;
  scenario.exact.keys = 16;
  const Verdict verdict = VerifyText(scenario);
  EXPECT_TRUE(verdict.pass) << Describe(verdict);
  EXPECT_EQ(verdict.exact->keys, 16);
  EXPECT_GT(verdict.exact->void_runs, 0);
  EXPECT_EQ(VerifyText(scenario).exact->void_runs, verdict.exact->void_runs) << "from the seed";
}

TEST(ExactVerifyTest, IllegalKeysAndPrimesAreRefused) {
  Scenario scenario = TinyScenario();
  scenario.exact.keys = 0;
  EXPECT_THROW(VerifyText(scenario), InvalidArgument);
  scenario.exact.keys = 1;
  scenario.exact.small_prime = 1001;
  EXPECT_THROW(VerifyText(scenario), InvalidArgument);
  scenario.config.model.seq_length = 16;
  scenario.config.train.global_batch_size = 16;
  scenario.exact.small_prime = 5;  // divides by 0 whatever the key
  EXPECT_THROW(VerifyText(scenario), InvalidArgument);
}

}  // namespace
}  // namespace plumbline
