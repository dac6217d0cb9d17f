// How often a wrong program looks equal with a tiny prime, against the bound that is stated.
#include "scenarios/exact_bound.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "scenarios/verify.h"
#include "tests/scenarios/scenario_testing.h"

namespace plumbline {
namespace {

constexpr uint64_t kPrime = 1009;

RunConfig Config() { return MakeScenario(NamedModels()[0], {2, 2, false}).config; }

TEST(ExactBoundTest, GrowsWithStepsLayersAndTokens) {
  const ExactDegrees before = DegreesOf(Config());
  RunConfig config = Config();
  config.train.steps *= 2;
  EXPECT_EQ(DegreesOf(config).uninterpreted, 2 * before.uninterpreted);
  EXPECT_EQ(DegreesOf(config).degree, 2 * before.degree);
  config = Config();
  config.model.num_layers += 1;
  EXPECT_GT(DegreesOf(config).uninterpreted, before.uninterpreted);
  EXPECT_GT(DegreesOf(config).degree, before.degree);
  config = Config();
  config.train.global_batch_size *= 2;
  EXPECT_GT(DegreesOf(config).degree, before.degree);
}

TEST(ExactBoundTest, KeysMultiplyAndNothingIsAbove1) {
  const double one = FalseEqualityBound(Config(), M61::prime(), 1);
  EXPECT_GT(one, 0);
  EXPECT_LT(one, 1e-11);
  EXPECT_NEAR(std::log(FalseEqualityBound(Config(), M61::prime(), 8)), 8 * std::log(one), 1e-6);
  EXPECT_EQ(FalseEqualityBound(Config(), 5, 3), 1);
}

// One step of one layer on two ranks: so small that the bound says something at this prime.
Scenario Tiny() {
  NamedModel named = NamedModels()[1];
  named.model.num_layers = 1;
  named.model.hidden_size = 2;
  named.model.ffn_hidden_size = 2;
  named.model.num_attention_heads = 2;
  named.model.num_query_groups = 2;
  named.model.kv_channels = 2;
  named.model.vocab_size = 3;
  named.model.padded_vocab_size = 3;
  named.model.seq_length = 2;
  named.train.steps = 1;
  named.train.micro_batch_size = 1;
  named.train.loss_mask_keep = 1;
  named.train.packed_documents = false;
  Scenario scenario = MakeScenario(named, {2, 1, false}, 1);
  scenario.config.dtype = DType::kP31;
  scenario.exact.small_prime = kPrime;
  return scenario;
}

// The share of keys for which a wrong program looks equal.
double EqualShare(Scenario scenario, int keys) {
  int equal = 0;
  for (int key = 0; key < keys; ++key) {
    scenario.exact.seed = static_cast<uint64_t>(key);
    equal += VerifyText(scenario).pass ? 1 : 0;
  }
  return static_cast<double>(equal) / keys;
}

// The gradient norm counts twice what both ranks hold. The difference is one sum of squares, which
// may be 0, under one square root, which may map both sums to one value: a chance of about 2 / p.
TEST(FalseEqualityTest, ADifferenceThroughOneScalarIsEqualAsOftenAsTheBoundSays) {
  constexpr int kKeys = 6000;
  Scenario scenario = Tiny();
  scenario.policies.grad_norm.counts = [](const std::string&, bool, int) { return true; };
  const double share = EqualShare(scenario, kKeys);
  const double bound = FalseEqualityBound(scenario.config, kPrime, 1);
  std::printf("equal %.3g of the keys: %.2f / p; bound %.3g\n", share, share * kPrime, bound);
  EXPECT_LT(bound, 0.5);
  EXPECT_LE(share, bound);
  // 2 / p of 6000 keys is 12; four standard deviations on both sides.
  EXPECT_GT(share * kPrime, 0.2);
  EXPECT_LT(share * kPrime, 4.4);
}

// A difference in every activation must vanish everywhere at once.
TEST(FalseEqualityTest, ADifferenceOfManyValuesIsNeverEqual) {
  Scenario scenario = Tiny();
  scenario.change_rank = [](int rank, RunConfig& config, Policies&) {
    if (rank == 1) config.model.norm_epsilon += 1e-13;
  };
  EXPECT_EQ(EqualShare(scenario, 1000), 0);
}

TEST(FalseEqualityTest, TheRightProgramIsAlwaysEqual) { EXPECT_EQ(EqualShare(Tiny(), 300), 1); }

}  // namespace
}  // namespace plumbline
