// Mistakes planted from outside, each with its clean twin, and what is said about them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "parallel/comm/mutation.h"
#include "scenarios/verify.h"
#include "tests/scenarios/scenario_testing.h"

namespace plumbline {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Plant = std::function<void(Scenario&)>;
using RulesOfRank = std::function<std::vector<MutationRule>(const Mesh&, int global_rank)>;

// A decorator with these rules on every rank.
Plant Mutate(RulesOfRank rules) {
  return [rules = std::move(rules)](Scenario& scenario) {
    auto mesh = std::make_shared<Mesh>(scenario.config.parallel);
    scenario.decorate = [mesh, rules](Rank& rank, Communicator& comm) {
      return std::make_unique<MutationCommunicator>(comm, rules(*mesh, rank.global_rank()));
    };
  };
}
Plant OnEveryRank(std::function<MutationRule()> rule) {
  return Mutate(
      [rule = std::move(rule)](const Mesh&, int) { return std::vector<MutationRule>{rule()}; });
}
Plant OnOneRank(int rank, std::function<MutationRule()> rule) {
  return Mutate([rank, rule = std::move(rule)](const Mesh&, int global_rank) {
    return global_rank == rank ? std::vector<MutationRule>{rule()} : std::vector<MutationRule>{};
  });
}
Plant Both(Plant first, Plant second) {
  return [first = std::move(first), second = std::move(second)](Scenario& scenario) {
    first(scenario);
    second(scenario);
  };
}
void WithoutFingerprint(Scenario& scenario) { scenario.world.fingerprint = false; }
void ContinueOnMismatch(Scenario& scenario) { scenario.world.on_mismatch = OnMismatch::kContinue; }

// Calls that carry a site of one tensor.
CallPredicate Moves(std::string tensor, Phase phase) {
  return [tensor = std::move(tensor), phase](const CollectiveCall& call, int) {
    return call.site.tensor == tensor && call.site.phase == phase;
  };
}
CallPredicate MovesInStep(std::string tensor, Phase phase, int step) {
  return [moves = Moves(std::move(tensor), phase), step](const CollectiveCall& call, int rank) {
    return call.site.step == step && moves(call, rank);
  };
}
// The data-parallel reductions of two parameters of the same shape, neighbours in order.
CallPredicate MovesEitherNorm() {
  return [](const CollectiveCall& call, int) {
    return call.site.step == 1 && call.group.name == "dp-cp" &&
           (call.site.tensor == "decoder.layers.0.input_layernorm.weight" ||
            call.site.tensor == "decoder.layers.0.input_layernorm.bias");
  };
}
CallPredicate WithReduceOp(ReduceOp op, CallPredicate also) {
  return [op, also = std::move(also)](const CollectiveCall& call, int rank) {
    return call.reduce_op == op && also(call, rank);
  };
}

Group Reversed(const Group& group) {
  Group reversed = group;
  std::reverse(reversed.members.begin(), reversed.members.end());
  reversed.hash = HashOfMembers(reversed.members);
  return reversed;
}

// The input times a factor, in a buffer of its own.
void ScaleInput(CollectiveCall& call, double factor) {
  call.input = call.input.Clone(Context{});
  double* values = call.input.data<double>();
  for (int64_t i = 0; i < call.input.elements(); ++i) values[i] *= factor;
}

// Keeps the first result and gives it again ever after.
MutationRule FirstResultAgain(CallPredicate predicate) {
  auto first = std::make_shared<Tensor>();
  return ChangeResult(std::move(predicate), [first](Tensor& output) {
    if (!first->defined()) {
      *first = output.Clone(Context{});
    } else {
      output.CopyFrom(*first);
    }
  });
}

// Every shard is filled as if it were the first of its parameter.
class SameSeedForEveryShard : public ParameterSource {
 public:
  explicit SameSeedForEveryShard(const ParameterSource& inner) : inner_(inner) {}
  void Fill(const std::string& name, const Shape& global_shape,
            const std::vector<int64_t>& global_index, Tensor& local) const override {
    std::vector<int64_t> index = global_index;
    for (int64_t& i : index) i -= std::max<int64_t>(global_index.front(), 0);
    inner_.Fill(name, global_shape, index, local);
  }

 private:
  const ParameterSource& inner_;
};

struct Row {
  std::string name;
  size_t model;  // of NamedModels()
  Layout layout;
  Plant plant;
  FindingClass kind;
  std::vector<int> ranks;
  std::string site;
  std::string group;
  std::string formula;  // a part of it; empty: none is expected
};

constexpr size_t kGpt = 0;
constexpr size_t kLlama = 1;
constexpr size_t kNope = 4;
constexpr auto kValue = FindingClass::kValueMismatch;
constexpr auto kReplica = FindingClass::kReplicaMismatch;
constexpr auto kCollective = FindingClass::kCollectiveMismatch;

const Layout kTp4Dp2 = {4, 2, false};
const Layout kTp4Dp2Sp = {4, 2, true};
const Layout kTp2Dp3 = {2, 3, false};
const Layout kTp2Dp3Sp = {2, 3, true};
const std::vector<int> kFirstTp4 = {0, 1, 2, 3};
const std::vector<int> kAllOf6 = {0, 1, 2, 3, 4, 5};
const std::vector<int> kAllOf8 = {0, 1, 2, 3, 4, 5, 6, 7};

const std::string kProj = "decoder.layers.0.self_attention.linear_proj";
const std::string kNorm = "decoder.layers.0.input_layernorm";
const std::string kFirstParameter = "embedding.word_embeddings.weight";

void PlantMask(Scenario& scenario, const std::string& which) {
  scenario.policies.first_vocab_row = [which](const std::string& module, int tp_rank,
                                              int64_t rows) {
    return (tp_rank + (module == which ? 1 : 0)) * rows;
  };
}

// What is decided wrongly.
std::vector<Row> PolicyRows() {
  return {
      {"SequenceParallelNormGradientNotSummed", kGpt, kTp4Dp2Sp,
       [](Scenario& scenario) {
         scenario.policies.sum_sequence_parallel_gradient = [](const std::string& parameter) {
           return parameter.find("layernorm") == std::string::npos;
         };
       },
       kValue, kAllOf8, "step 1 finalize " + kNorm + ".weight main_grad", "tp{0,1,2,3}",
       "sum over tp of actual = reference"},
      {"RowBiasGradientLeftOutOfTheTpSum", kGpt, kTp2Dp3Sp,
       [](Scenario& scenario) {
         scenario.policies.sum_sequence_parallel_gradient = [](const std::string& parameter) {
           return parameter != kProj + ".bias";
         };
       },
       kValue, kAllOf6, "step 1 finalize " + kProj + ".bias main_grad", "tp{0,1}",
       "sum over tp of actual = reference"},
      {"RowBiasOnEveryRank", kGpt, kTp4Dp2,
       [](Scenario& scenario) {
         scenario.policies.bias_before_reduction = [](const std::string&, int) { return true; };
       },
       kValue, kFirstTp4, "step 1 microbatch 0 forward " + kProj + " value", "tp{0,1,2,3}",
       "actual = reference + 3 (tp - 1) * " + kProj + ".bias"},
      {"RowBiasOnTwoRanks", kGpt, kTp4Dp2Sp,
       [](Scenario& scenario) {
         scenario.policies.bias_before_reduction = [](const std::string&, int tp_rank) {
           return tp_rank < 2;
         };
       },
       kValue, kFirstTp4, "step 1 microbatch 0 forward " + kProj + " value", "tp{0,1,2,3}",
       "actual = reference + " + kProj + ".bias"},
      {"EmbeddingMaskOffByOneShard", kGpt, kTp4Dp2,
       [](Scenario& scenario) { PlantMask(scenario, "embedding.word_embeddings"); }, kValue,
       kFirstTp4, "step 1 microbatch 0 forward embedding.word_embeddings value", "tp{0,1,2,3}",
       "actual = row (token - 16) of the table, 0 outside"},
      {"TargetMaskOffByOneShard", kGpt, kTp4Dp2,
       [](Scenario& scenario) { PlantMask(scenario, "output_layer"); }, kValue, kFirstTp4,
       "step 1 microbatch 0 forward loss_per_token value", "tp{0,1,2,3}",
       "actual = loss of target (label - 16), 0 outside the vocabulary"},
      {"GradientsOverTheWrongGroup", kGpt, kTp2Dp3,
       [](Scenario& scenario) { scenario.policies.data_parallel.group_axes = "tp"; }, kValue,
       kAllOf6, "step 1 finalize " + kFirstParameter + " main_grad", "tp{0,1}",
       "actual = 1/2 (1/tp) * sum over tp of the terms; reference = a sum over dp of them"},
      {"ReplicatedGradientsOverTheWrongGroup", kGpt, kTp2Dp3Sp,
       [](Scenario& scenario) { scenario.policies.data_parallel.group_axes = "tp"; }, kValue,
       kAllOf6, "step 1 finalize " + kFirstParameter + " main_grad", "tp{0,1}",
       "actual = 1/2 (1/tp) * sum over tp of the terms; reference = a sum over dp of them"},
      {"GradientsSummedNotAveraged", kGpt, kTp2Dp3,
       [](Scenario& scenario) {
         scenario.policies.data_parallel.reduce_op_per_microbatch = ReduceOp::kSum;
       },
       kValue, kAllOf6, "step 1 finalize " + kFirstParameter + " main_grad", "dp{0,2,4}",
       "actual = 3 (dp) * reference"},
      {"TokenGradientsAveragedNotSummed", kLlama, kTp2Dp3,
       [](Scenario& scenario) {
         scenario.policies.data_parallel.reduce_op_per_token = ReduceOp::kAvg;
       },
       kValue, kAllOf6, "step 1 finalize " + kFirstParameter + " main_grad", "dp{0,2,4}",
       "actual = 1/3 (1/dp) * reference"},
      {"NormCountsReplicatedParametersOnEveryRank", kGpt, kTp2Dp3,
       [](Scenario& scenario) {
         scenario.policies.grad_norm.counts = [](const std::string&, bool, int) { return true; };
       },
       kValue, kAllOf6, "step 1 norm grad_norm value", "tp-pp{0,1}",
       "of squares: actual = reference + squares of the parameters that tp ranks replicate"},
      {"NormOmitsShardedParametersOfOtherRanks", kGpt, kTp2Dp3,
       [](Scenario& scenario) {
         scenario.policies.grad_norm.counts = [](const std::string&, bool, int tp_rank) {
           return tp_rank == 0;
         };
       },
       kValue, kAllOf6, "step 1 norm grad_norm value", "tp-pp{0,1}", ""},
      {"NormOverTheWrongGroup", kGpt, kTp2Dp3,
       [](Scenario& scenario) { scenario.policies.grad_norm.group_axes = "dp"; }, kValue, kAllOf6,
       "step 1 norm grad_norm value", "dp{0,2,4}",
       "of squares: actual = sum over dp of the terms; reference = a sum over tp of them"},
  };
}

// What goes wrong on the way.
std::vector<Row> CommunicationRows() {
  const auto proj = Moves(kProj, Phase::kForward);
  const auto gradient = MovesInStep(kFirstParameter, Phase::kFinalize, 1);
  const std::string proj_site = "step 1 microbatch 0 forward " + kProj + " value";
  const std::string gradient_site = "step 1 finalize " + kFirstParameter + " main_grad";
  return {
      {"AllReduceDroppedAfterRowParallel", kGpt, kTp4Dp2, OnEveryRank([=] { return Drop(proj); }),
       kValue, kFirstTp4, proj_site, "tp{0,1,2,3}",
       "sum over tp of actual = reference + 3 * " + kProj + ".bias"},
      {"BackwardAllReduceDropped", kGpt, kTp4Dp2,
       OnEveryRank([] { return Drop(Moves("decoder.final_layernorm", Phase::kBackward)); }), kValue,
       kFirstTp4, "step 1 microbatch 0 backward decoder.final_layernorm gradient", "tp{0,1,2,3}",
       "sum over tp of actual = reference"},
      {"MaximumInPlaceOfSum", kNope, kTp4Dp2, OnEveryRank([=] {
         return ChangeReduceOp(Moves("embedding.word_embeddings", Phase::kForward), ReduceOp::kMax);
       }),
       kValue, kFirstTp4, "step 1 microbatch 0 forward embedding.word_embeddings value",
       "tp{0,1,2,3}", "actual = maximum over tp of the terms"},
      {"AverageInPlaceOfSum", kNope, kTp4Dp2, OnEveryRank([=] {
         return ChangeReduceOp(Moves("embedding.word_embeddings", Phase::kForward), ReduceOp::kAvg);
       }),
       kValue, kFirstTp4, "step 1 microbatch 0 forward embedding.word_embeddings value",
       "tp{0,1,2,3}", "actual = 1/4 (1/tp) * reference"},
      {"GradientReductionDroppedEverywhere", kGpt, kTp2Dp3,
       OnEveryRank([=] { return Drop(gradient); }), kValue, kAllOf6, gradient_site, "dp{0,2,4}",
       "mean over dp of actual = reference"},
      {"ContributionOfOneRankMissing",
       kGpt,
       kTp2Dp3,
       OnOneRank(
           4,
           [=] { return ChangeCall(gradient, [](CollectiveCall& call) { ScaleInput(call, 0); }); }),
       kValue,
       {0, 2, 4},
       gradient_site,
       "dp-cp{0,2,4}",
       "actual = reference - 1/3 (1/dp) * the term of dp-cp 2 (rank 4)"},
      {"ContributionOfOneRankTwice",
       kGpt,
       kTp2Dp3,
       OnOneRank(
           3,
           [=] { return ChangeCall(gradient, [](CollectiveCall& call) { ScaleInput(call, 2); }); }),
       kValue,
       {1, 3, 5},
       gradient_site,
       "dp-cp{1,3,5}",
       "actual = reference + 1/3 (1/dp) * the term of dp-cp 1 (rank 3)"},
      {"ResultScaledOnOneRank",
       kGpt,
       kTp2Dp3,
       OnOneRank(3, [=] { return ScaleResult(gradient, 0.5); }),
       kValue,
       {3},
       gradient_site,
       "dp-cp{1,3,5}",
       "actual = 1/2 * reference"},
      {"ResultScaledOnEveryRank", kGpt, kTp2Dp3,
       OnEveryRank([=] { return ScaleResult(gradient, 8); }), kValue, kAllOf6, gradient_site,
       "dp-cp{0,2,4}", "actual = 8 * reference"},
      {"ResultZeroedOnOneRank",
       kGpt,
       kTp2Dp3,
       OnOneRank(5, [=] { return ZeroResult(gradient); }),
       kValue,
       {5},
       gradient_site,
       "dp-cp{1,3,5}",
       "actual = 0"},
      {"RowParallelResultZeroedOnOneRank",
       kGpt,
       kTp4Dp2,
       OnOneRank(2, [=] { return ZeroResult(proj); }),
       kValue,
       {2},
       proj_site,
       "tp{0,1,2,3}",
       "actual = " + kProj + ".bias"},
      {"BitFlippedInOnePayload",
       kGpt,
       kTp2Dp3,
       OnOneRank(1, [=] { return FlipBit(gradient, 8 * 11 + 6, 5); }),
       kValue,
       {1},
       gradient_site,
       "dp-cp{1,3,5}",
       "one element differs, in bit 53"},
      {"LowBitFlippedInOnePayload",
       kGpt,
       kTp2Dp3,
       OnOneRank(1, [=] { return FlipBit(gradient, 8 * 11, 0); }),
       kReplica,
       {1},
       gradient_site,
       "dp-cp{1,3,5}",
       "1 of 992 elements differ"},
      {"NanInOnePayload",
       kGpt,
       kTp2Dp3,
       OnOneRank(
           0, [=] { return ChangeResult(gradient, [](Tensor& output) { output.FillPoison(); }); }),
       FindingClass::kNonFinite,
       {0},
       gradient_site,
       "dp-cp{0,2,4}",
       "actual is NaN in 992"},
      {"ConstantAddedOnOneRank",
       kGpt,
       kTp4Dp2,
       OnOneRank(1,
                 [=] {
                   return ChangeResult(proj, [](Tensor& output) {
                     double* values = output.data<double>();
                     for (int64_t i = 0; i < output.elements(); ++i) values[i] += 0.25;
                   });
                 }),
       kValue,
       {1},
       proj_site,
       "tp{0,1,2,3}",
       "actual = reference +0.25"},
      {"ResultOfTheFirstMicrobatchAgain",
       kGpt,
       kTp4Dp2,
       OnOneRank(2, [=] { return FirstResultAgain(proj); }),
       kValue,
       {2},
       "step 1 microbatch 2 forward " + kProj + " value",
       "tp{0,1,2,3}",
       "actual = the reference's value of step 1 microbatch 0"},
      {"StaleEmbedding", kNope, kTp4Dp2, OnEveryRank([=] {
         return FirstResultAgain(Moves("embedding.word_embeddings", Phase::kForward));
       }),
       kValue, kFirstTp4, "step 1 microbatch 2 forward embedding.word_embeddings value",
       "tp{0,1,2,3}", "actual = the reference's value of step 1 microbatch 0"},
      {"ScatteredInTheWrongOrder",
       kNope,
       kTp2Dp3Sp,
       OnEveryRank([=] {
         return ChangeGroup(Moves("embedding.word_embeddings", Phase::kForward), Reversed);
       }),
       kValue,
       {0, 1},
       "step 1 microbatch 0 forward embedding.word_embeddings value",
       "tp{0,1}",
       "actual = the piece of tp 1 further (rank 0 holds rank 1's)"},
      {"GatheredInTheWrongOrder",
       kNope,
       kTp2Dp3Sp,
       OnEveryRank([=] { return ChangeGroup(Moves(kNorm, Phase::kForward), Reversed); }),
       kValue,
       {0, 1},
       "step 1 microbatch 0 forward decoder.layers.0.self_attention.linear_qkv value",
       "tp{0,1}",
       "actual = reference with blocks of 8 along axis 0 in order 1,0"},
      {"LocalMaximumInTheLoss", kGpt, kTp4Dp2, OnEveryRank([=] {
         return Drop(WithReduceOp(ReduceOp::kMax, Moves("loss_per_token", Phase::kForward)));
       }),
       kValue, kFirstTp4, "step 1 microbatch 0 forward loss_per_token value", "tp{0,1,2,3}", ""},
      {"NormReducedOnTpRank0Only",
       kGpt,
       kTp2Dp3,
       Mutate([](const Mesh& mesh, int rank) {
         std::vector<MutationRule> rules;
         if (mesh.CoordinateOf(rank, "tp") == 1) {
           rules.push_back(ScaleResult(Moves("grad_norm", Phase::kNorm), 0.25));
         }
         return rules;
       }),
       kValue,
       {1, 3, 5},
       "step 1 norm grad_norm value",
       "tp-pp{0,1}",
       "actual = 1/2 * reference"},
  };
}

// What the ranks disagree about.
std::vector<Row> DisagreementRows() {
  const auto swap = OnOneRank(3, [] { return SwapWithNext(MovesEitherNorm()); });
  const auto skip = OnOneRank(3, [] { return Skip(Nth(0, MovesEitherNorm())); });
  const std::string site = "step 1 finalize " + kNorm + ".weight main_grad";
  return {
      {"TwoReductionsSwappedOnOneRank",
       kGpt,
       kTp2Dp3,
       swap,
       kCollective,
       {3},
       site,
       "dp-cp{1,3,5}",
       ""},
      {"TwoReductionsSwappedAndJoined",
       kGpt,
       kTp2Dp3,
       Both(swap, ContinueOnMismatch),
       kCollective,
       {3},
       site,
       "dp-cp{1,3,5}",
       ""},
      {"TwoReductionsSwappedUnseen",
       kGpt,
       kTp2Dp3,
       Both(swap, WithoutFingerprint),
       kValue,
       {1, 3, 5},
       site,
       "dp-cp{1,3,5}",
       ""},
      {"OneRankSkipsAReduction",
       kGpt,
       kTp2Dp3,
       Both(skip, WithoutFingerprint),
       FindingClass::kDeadlock,
       {1, 3, 5},
       "step 1 finalize " + kNorm + ".bias main_grad",
       "dp-cp{1,3,5}",
       ""},
      {"OneRankSkipsTheLastReduction",
       kGpt,
       kTp2Dp3,
       OnOneRank(3, [] { return Skip(MovesInStep("grad_norm", Phase::kNorm, 3)); }),
       FindingClass::kDeadlock,
       {3},
       "step 3 norm grad_norm value",
       "tp-pp{2,3}",
       ""},
      {"OneRankSkipsAReductionOnWatch",
       kGpt,
       kTp2Dp3,
       skip,
       kCollective,
       {3},
       site,
       "dp-cp{1,3,5}",
       ""},
      {"OneRankInAnotherGroup",
       kGpt,
       kTp2Dp3,
       OnOneRank(3, [] { return ChangeGroup(Nth(0, MovesEitherNorm()), Reversed); }),
       kCollective,
       {3},
       site,
       "dp-cp{1,3,5}",
       ""},
      {"OneRankWithAnotherReduction",
       kGpt,
       kTp2Dp3,
       OnOneRank(3, [] { return ChangeReduceOp(Nth(0, MovesEitherNorm()), ReduceOp::kSum); }),
       kCollective,
       {3},
       site,
       "dp-cp{1,3,5}",
       ""},
  };
}

std::vector<Row> AllRows() {
  std::vector<Row> rows = PolicyRows();
  for (Row& row : CommunicationRows()) rows.push_back(std::move(row));
  for (Row& row : DisagreementRows()) rows.push_back(std::move(row));
  return rows;
}

void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

class PlantedTest : public ::testing::TestWithParam<Row> {};

TEST_P(PlantedTest, IsFoundAndItsCleanTwinIsSilent) {
  const Row& row = GetParam();
  const NamedModel model = NamedModels()[row.model];
  const Verdict clean = VerifyText(MakeScenario(model, row.layout));
  EXPECT_TRUE(clean.pass) << Describe(clean);

  Scenario scenario = MakeScenario(model, row.layout);
  row.plant(scenario);
  const Verdict verdict = VerifyText(scenario);
  EXPECT_FALSE(verdict.pass);
  ASSERT_FALSE(verdict.findings.empty()) << Describe(verdict);
  const Finding& found = verdict.findings.front();
  EXPECT_EQ(found.kind, row.kind) << Describe(verdict);
  EXPECT_EQ(found.ranks, row.ranks) << Describe(verdict);
  EXPECT_EQ(ToString(found.site), row.site) << Describe(verdict);
  EXPECT_EQ(found.group, row.group) << Describe(verdict);
  if (row.formula.empty()) {
    EXPECT_EQ(found.formula, "") << Describe(verdict);
  } else {
    EXPECT_THAT(found.formula, HasSubstr(row.formula)) << Describe(verdict);
  }
  EXPECT_EQ(found.repeat, scenario.repeat);
}

INSTANTIATE_TEST_SUITE_P(All, PlantedTest, ::testing::ValuesIn(AllRows()),
                         [](const auto& info) { return info.param.name; });

// Found where it happens, in the very first tensors: before training.
TEST(PlantedInitTest, SameSeedForEveryShardIsFound) {
  const Scenario scenario = MakeScenario(NamedModels()[kGpt], kTp2Dp3);
  const SeededParameters seeded(scenario.config.model, scenario.config.train.seed);
  const SameSeedForEveryShard parameters(seeded);
  const TextBatches batches(scenario.config.model, scenario.config.train, {7, 5, 3, 2, 1, 11, 13});
  const Verdict clean = Verify(scenario, {seeded, batches});
  EXPECT_TRUE(clean.pass) << Describe(clean);
  const Verdict verdict = Verify(scenario, {parameters, batches});
  ASSERT_FALSE(verdict.findings.empty());
  const Finding& found = verdict.findings.front();
  EXPECT_EQ(found.kind, kValue);
  EXPECT_EQ(found.ranks, (std::vector<int>{1, 3, 5})) << Describe(verdict);
  EXPECT_EQ(ToString(found.site), "step 0 init " + kFirstParameter + " parameter");
  EXPECT_THAT(found.formula, HasSubstr("actual = the piece of tp 1 further"));
}

}  // namespace
}  // namespace plumbline
