// Ten mistakes that float64 cannot see within 1e-11: exact mode finds each, and says where.
//
// Two of them, norms that count wrongly while the clip does not act, change nothing but the norm;
// float64 sees them there, as the norm itself is compared, and nowhere else.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "scenarios/verify.h"
#include "tests/scenarios/attention_plants.h"
#include "tests/scenarios/plants.h"
#include "tests/scenarios/scenario_testing.h"

namespace plumbline {
namespace {

const std::string kTable = "embedding.word_embeddings.weight";
const std::string kLayer = "decoder.layers.0.";
const std::string kCore = kLayer + "self_attention.core_attention";

// A tensor, or one row of it, is multiplied in floating point. Values of a field have no size.
struct Enlarged {
  std::string tensor_end;
  int64_t row = -1;  // -1: all
  double factor = 1;
};

class EnlargedParameters : public ParameterSource {
 public:
  EnlargedParameters(const ParameterSource& inner, Enlarged change)
      : inner_(inner), change_(std::move(change)) {}
  void Fill(const std::string& name, const Shape& global_shape,
            const std::vector<int64_t>& global_index, Tensor& local) const override {
    inner_.Fill(name, global_shape, global_index, local);
    if (local.dtype() != DType::kF64 || change_.factor == 1) return;
    if (!name.ends_with(change_.tensor_end)) return;
    double* values = local.data<double>();
    for (size_t i = 0; i < global_index.size(); ++i) {
      const int64_t row = global_index[i] / global_shape.back();
      if (change_.row < 0 || row == change_.row) values[i] *= change_.factor;
    }
  }

 private:
  const ParameterSource& inner_;
  Enlarged change_;
};

struct Row {
  std::string name;
  NamedModel model;
  Layout layout;
  Plant plant;
  std::vector<int> ranks;
  std::string site;
  bool f64_sees_the_norm = false;
  Enlarged enlarged = {};
};

void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

std::vector<uint8_t> Text() {
  std::vector<uint8_t> text;
  for (uint32_t i = 0; i < 5000; ++i) text.push_back(static_cast<uint8_t>((i * i * 7 + i) >> 3));
  return text;
}

Verdict VerifyRow(const Row& row, DType dtype, bool planted) {
  Scenario scenario = MakeScenario(row.model, row.layout);
  scenario.config.dtype = dtype;
  if (planted) row.plant(scenario);
  const SeededParameters seeded(scenario.config.model, scenario.config.train.seed);
  const EnlargedParameters parameters(seeded, row.enlarged);
  const TextBatches batches(scenario.config.model, scenario.config.train, Text());
  return Verify(scenario, {parameters, batches});
}

NamedModel Gpt() { return NamedModels()[0]; }
NamedModel Llama() { return NamedModels()[1]; }

NamedModel LlamaWithAdam() {
  NamedModel named = Llama();
  named.train.optimizer = OptimizerKind::kAdam;
  named.train.adam_eps = 1e-20;
  return named;
}

// Every key before a query is seen by it.
NamedModel Unpacked() {
  NamedModel named = Llama();
  named.train.packed_documents = false;
  return named;
}

Plant OfRank1(std::function<void(RunConfig&, Policies&)> change) {
  return [change = std::move(change)](Scenario& scenario) {
    scenario.change_rank = [change](int rank, RunConfig& config, Policies& policies) {
      if (rank == 1) change(config, policies);
    };
  };
}

// Of the two sums over the vocabulary, target and denominator, the second.
CallPredicate Denominator() {
  auto count = std::make_shared<int>(0);
  const CallPredicate sums = WithReduceOp(ReduceOp::kSum, Moves("loss_per_token", Phase::kForward));
  return [count, sums](const CollectiveCall& call, int rank) {
    return sums(call, rank) && (*count)++ % 2 == 1;
  };
}

// Where copies of a rank's values exist, all of them are wrong alike: float64 compares replicas by
// their bits.
std::vector<Row> CoefficientRows() {
  return {
      {"NormEpsilonOfOneRank",
       Llama(),
       {1, 2, false},
       OfRank1([](RunConfig& config, Policies&) { config.model.norm_epsilon += 1e-13; }),
       {1},
       "step 1 microbatch 1 forward " + kLayer + "input_layernorm value",
       false,
       {kTable, -1, 30}},
      // 0 is no legal epsilon; beside any sqrt(v) the smallest double is.
      {"AdamEpsilonNoneInPlaceOf1e20",
       LlamaWithAdam(),
       {2, 2, false},
       [](Scenario& scenario) {
         scenario.change_rank = [](int, RunConfig& config, Policies&) {
           config.train.adam_eps = std::numeric_limits<double>::denorm_min();
         };
       },
       {0, 1, 2, 3},
       "step 1 step " + kTable + " parameter"},
      {"LossNormalizerPlus1e12",
       Llama(),
       {2, 2, false},
       OnEveryRank([] { return AddToResult(Moves("num_tokens", Phase::kFinalize), 1e-12); }),
       {0, 1, 2, 3},
       "step 1 finalize " + kTable + " main_grad"},
      {"SoftmaxDenominatorPlus1e12",
       Llama(),
       {2, 2, false},
       OnEveryRank([] { return AddToResult(Denominator(), 1e-12); }),
       {0, 1},
       "step 1 microbatch 0 forward loss_per_token value"},
      {"WeightDecayOfABias",
       Gpt(),
       {2, 2, false},
       [](Scenario& scenario) {
         scenario.policies.weight_decay = [](const std::string& parameter, double of_its_kind) {
           return parameter == kLayer + "mlp.linear_fc2.bias" ? 1e-14 : of_its_kind;
         };
       },
       {0, 1, 2, 3},
       "step 1 step " + kLayer + "mlp.linear_fc2.bias parameter"},
  };
}

std::vector<Row> RareTermRows() {
  return {
      {"OneKeyOfLittleProbabilitySkipped",
       Unpacked(),
       {2, 2, false},
       OfRank1([](RunConfig&, Policies& policies) {
         policies.attention_forward = SkipLeastProbableKey;
       }),
       {1},
       "step 1 microbatch 0 forward " + kCore + " value",
       false,
       {"linear_qkv.weight", -1, 7}},
      {"MaskedKeyOfScoreMinus40",
       Unpacked(),
       {2, 2, false},
       OfRank1([](RunConfig&, Policies& policies) {
         policies.attention_forward = GiveMaskedKeyMinus40;
       }),
       {1},
       "step 1 microbatch 0 forward " + kCore + " value"},
      // The token of position 5 of sample 0: its row of the table is so large that its gradient is
      // 1e-13 of the others'.
      {"OneTokensEmbeddingGradientDropped",
       Unpacked(),
       {2, 1, true},
       [](Scenario& scenario) {
         OnEveryRank([] {
           const auto gather = Nth(0, Moves("embedding.word_embeddings", Phase::kBackward));
           return ChangeResult(
               gather, [](Tensor& output) { output.Slice(0, 5, 6).Slice(1, 0, 1).FillZero(); });
         })(scenario);
       },
       {},
       "step 1 finalize " + kTable + " main_grad",
       false,
       {kTable, 0, 1e13}},
  };
}

std::vector<Row> NormRows() {
  return {
      {"ReplicatedParametersCountTwiceInAnIdleClip",
       Gpt(),
       {2, 2, false},
       [](Scenario& scenario) {
         scenario.policies.grad_norm.counts = [](const std::string&, bool, int) { return true; };
       },
       {0, 1, 2, 3},
       "step 1 norm grad_norm value",
       true},
      {"NormOfOneGroupLeftOutOfAnIdleClip",
       Gpt(),
       {2, 2, false},
       [](Scenario& scenario) {
         scenario.policies.grad_norm.counts = [](const std::string& parameter, bool tensor_parallel,
                                                 int tp_rank) {
           if (parameter.starts_with("decoder.final_layernorm")) return false;
           return tensor_parallel || tp_rank == 0;
         };
       },
       {0, 1, 2, 3},
       "step 1 norm grad_norm value",
       true},
  };
}

std::vector<Row> AllRows() {
  std::vector<Row> all;
  for (const auto& some : {CoefficientRows(), RareTermRows(), NormRows()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  const auto dropped = std::find_if(all.begin(), all.end(), [](const Row& row) {
    return row.name == "OneTokensEmbeddingGradientDropped";
  });
  // Whose row and which shard that is, the text says.
  const Scenario scenario = MakeScenario(dropped->model, dropped->layout);
  const TextBatches batches(scenario.config.model, scenario.config.train, Text());
  const Batch batch = batches.Get(Context{}, 1, 0);
  const int64_t token = batch.tokens.ToVector<int64_t>()[5];
  dropped->enlarged.row = token;
  const int64_t rows = (scenario.config.model.vocab_size + 1) / 2;
  dropped->ranks = {static_cast<int>(token / rows)};
  return all;
}

class UnseenTest : public ::testing::TestWithParam<Row> {};

TEST_P(UnseenTest, Float64MissesIt) {
  const Verdict clean = VerifyRow(GetParam(), DType::kF64, false);
  EXPECT_TRUE(clean.pass) << Describe(clean);
  const Verdict verdict = VerifyRow(GetParam(), DType::kF64, true);
  if (!GetParam().f64_sees_the_norm) {
    EXPECT_TRUE(verdict.pass) << Describe(verdict);
    return;
  }
  for (const Finding& finding : verdict.findings) EXPECT_EQ(finding.site.tensor, "grad_norm");
  EXPECT_EQ(verdict.more_findings, 0);
}

TEST_P(UnseenTest, ExactModeFindsAndPlacesIt) {
  const Row& row = GetParam();
  const Verdict clean = VerifyRow(row, DType::kM61, false);
  EXPECT_TRUE(clean.pass) << Describe(clean);
  EXPECT_EQ(clean.exact->unequal, 0);
  const Verdict verdict = VerifyRow(row, DType::kM61, true);
  EXPECT_FALSE(verdict.pass);
  ASSERT_FALSE(verdict.findings.empty()) << Describe(verdict);
  const Finding& found = verdict.findings.front();
  EXPECT_EQ(found.kind, FindingClass::kValueMismatch) << Describe(verdict);
  EXPECT_EQ(found.ranks, row.ranks) << Describe(verdict);
  EXPECT_EQ(ToString(found.site), row.site) << Describe(verdict);
  EXPECT_GT(verdict.exact->unequal, 0);
}

INSTANTIATE_TEST_SUITE_P(All, UnseenTest, ::testing::ValuesIn(AllRows()),
                         [](const auto& info) { return info.param.name; });

// What the plant leaves out in float64 is as rare as it should be.
TEST(UnseenPlantTest, TheSkippedKeyHasAProbabilityBelow1e14) {
  const std::vector<Row> rows = RareTermRows();
  ResetSkippedKeys();
  VerifyRow(rows.front(), DType::kF64, true);
  EXPECT_GT(SkippedKeys().count, 0);
  EXPECT_LT(SkippedKeys().largest_probability, 1e-14);
}

}  // namespace
}  // namespace plumbline
