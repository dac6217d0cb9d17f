// A thousand random legal configurations over a prime field, without a false alarm.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "base/error.h"
#include "base/rng.h"
#include "scenarios/verify.h"
#include "tests/base/sweep.h"
#include "tests/scenarios/scenario_testing.h"

namespace plumbline {
namespace {

constexpr uint64_t kConfigurations = 1000;

// Draws from a stream, one after the other.
class Draws {
 public:
  explicit Draws(uint64_t seed) : stream_(DataStream(seed, "configuration")) {}
  int64_t Below(int64_t n) {
    return static_cast<int64_t>(stream_.Bits(next_++) % static_cast<uint64_t>(n));
  }
  bool Coin() { return Below(2) == 1; }
  template <class T>
  T OneOf(std::initializer_list<T> values) {
    return values.begin()[Below(static_cast<int64_t>(values.size()))];
  }

 private:
  RandomStream stream_;
  uint64_t next_ = 0;
};

void DrawModel(Draws& draws, TransformerConfig& model) {
  model.num_layers = 1 + draws.Below(2);
  model.num_attention_heads = draws.OneOf<int64_t>({2, 4, 8});
  model.num_query_groups = draws.OneOf<int64_t>({1, 2, 4, 8});
  model.kv_channels = draws.OneOf<int64_t>({2, 4});
  model.hidden_size = draws.OneOf<int64_t>({6, 8, 10});
  model.ffn_hidden_size = draws.OneOf<int64_t>({8, 16});
  model.vocab_size = 5 + draws.Below(12);
  model.padded_vocab_size = model.vocab_size;
  model.seq_length = draws.OneOf<int64_t>({3, 4, 8});
  model.max_position_embeddings = model.seq_length + draws.Below(3);
  model.normalization = draws.OneOf({Normalization::kLayerNorm, Normalization::kRmsNorm});
  model.activation = draws.OneOf(
      {Activation::kGeluTanh, Activation::kGeluErf, Activation::kSquaredRelu, Activation::kSwiglu});
  model.add_bias_linear = draws.Coin();
  model.add_qkv_bias = !model.add_bias_linear && draws.Coin();
  model.tied_embeddings = draws.Coin();
  model.position_embedding = draws.OneOf(
      {PositionEmbedding::kNone, PositionEmbedding::kRope, PositionEmbedding::kLearnedAbsolute});
  model.rotary_percent = draws.OneOf({1.0, 0.5});
  model.rotary_interleaved = draws.Coin();
  model.rope_scaling =
      draws.OneOf({RopeScaling::kNone, RopeScaling::kLinear, RopeScaling::kLlama3});
  model.rope_scaling_factor = 2;
  model.hidden_dropout = draws.OneOf({0.0, 0.2});
  model.attention_dropout = draws.OneOf({0.0, 0.3});
  model.label_smoothing = draws.OneOf({0.0, 0.1});
}

void DrawTraining(Draws& draws, TrainConfig& train) {
  train.seed = static_cast<uint64_t>(draws.Below(1000));
  train.steps = 1 + draws.Below(2);
  train.micro_batch_size = 1 + draws.Below(2);
  train.calculate_per_token_loss = draws.Coin();
  train.optimizer = draws.OneOf({OptimizerKind::kAdam, OptimizerKind::kSgd});
  train.sgd_momentum = draws.OneOf({0.0, 0.9});
  train.weight_decay = draws.OneOf({0.0, 0.1});
  train.clip_grad = draws.OneOf({0.0, 1.0});
  train.packed_documents = draws.Coin();
  train.loss_mask_keep = draws.OneOf({1.0, 0.7});
}

NamedModel DrawNamed(Draws& draws) {
  NamedModel named;
  named.name = "random";
  DrawModel(draws, named.model);
  DrawTraining(draws, named.train);
  return named;
}

// The first legal one that the seed gives.
Scenario DrawScenario(uint64_t seed) {
  Draws draws(seed);
  for (;;) {
    const NamedModel named = DrawNamed(draws);
    Layout layout;
    layout.tp = draws.OneOf({1, 2, 2, 4, 8});
    layout.dp = 1 + static_cast<int>(draws.Below(8 / layout.tp));
    layout.sequence_parallel = layout.tp > 1 && draws.Coin();
    layout.gqa_policy = draws.OneOf({GqaPolicy::kGatherQkv, GqaPolicy::kReplicateKv});
    const int microbatches = 1 + static_cast<int>(draws.Below(2));
    Scenario scenario = MakeScenario(named, layout, microbatches);
    scenario.config.parallel.order = draws.OneOf<std::string>({"tp-cp-ep-dp-pp", "dp-tp-cp-ep-pp"});
    scenario.config.dtype = DType::kM61;
    scenario.exact.seed = seed;
    // Refused when the layers are built.
    const bool uneven =
        named.model.num_query_groups < layout.tp && named.model.qkv_size() % layout.tp != 0;
    if (uneven) continue;
    try {
      Validate(scenario.config);
      return scenario;
    } catch (const InvalidArgument&) {
    }
  }
}

std::string TextOf(const Scenario& scenario) {
  const TransformerConfig& model = scenario.config.model;
  return fmt::format("{} layers {} heads {} groups {} hidden {} seq {} vocab {} {} {} {}",
                     scenario.repeat, model.num_layers, model.num_attention_heads,
                     model.num_query_groups, model.hidden_size, model.seq_length, model.vocab_size,
                     Name(model.activation), Name(model.position_embedding),
                     Name(scenario.config.train.optimizer));
}

class ExactRandomTest : public ::testing::TestWithParam<uint64_t> {};

TEST_P(ExactRandomTest, LegalConfigurationsRaiseNoAlarm) {
  constexpr uint64_t kPerTest = 50;
  for (uint64_t seed = GetParam(); seed < GetParam() + kPerTest; seed += kSweepStride) {
    const Scenario scenario = DrawScenario(seed);
    const Verdict verdict = VerifyText(scenario);
    fmt::print("seed {}: {}: {} of {} values unequal\n", seed, TextOf(scenario),
               verdict.exact->unequal, verdict.exact->values);
    EXPECT_TRUE(verdict.pass) << "seed " << seed << "\n" << Describe(verdict);
    EXPECT_EQ(verdict.exact->unequal, 0) << "seed " << seed;
    EXPECT_GT(verdict.exact->values, 0) << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(All, ExactRandomTest,
                         ::testing::Range(uint64_t{0}, kConfigurations, uint64_t{50}));

}  // namespace
}  // namespace plumbline
