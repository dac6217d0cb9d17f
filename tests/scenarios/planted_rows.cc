#include "tests/scenarios/planted_rows.h"

#include <utility>

namespace plumbline {
namespace {

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

// Gradients that are reduced wrongly.
std::vector<PlantedRow> GradientPolicyRows() {
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
      {"GradientsOverTheWrongGroup", kGpt, kTp2Dp3,
       [](Scenario& scenario) { scenario.policies.data_parallel.group_axes = "tp"; }, kValue,
       kAllOf6, "step 1 finalize " + kFirstParameter + " main_grad", "tp{0,1}",
       "actual = 1/2 (1/tp, or 1/num_microbatches) * sum over tp of the terms; reference = a sum "
       "over dp of them"},
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
  };
}

// Biases and vocabularies that are cut wrongly.
std::vector<PlantedRow> LayerPolicyRows() {
  return {
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
  };
}

// Norms that count wrongly.
std::vector<PlantedRow> NormPolicyRows() {
  return {
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

// Collectives that do nothing, or something else, on all ranks.
std::vector<PlantedRow> DroppedRows() {
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
      {"GradientReductionDroppedEverywhere", kGpt, kTp2Dp3,
       OnEveryRank([=] { return Drop(gradient); }), kValue, kAllOf6, gradient_site, "dp{0,2,4}",
       "mean over dp of actual = reference"},
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
      {"LocalMaximumInTheLoss", kGpt, kTp4Dp2, OnEveryRank([=] {
         return Drop(WithReduceOp(ReduceOp::kMax, Moves("loss_per_token", Phase::kForward)));
       }),
       kValue, kFirstTp4, "step 1 microbatch 0 forward loss_per_token value", "tp{0,1,2,3}", ""},
  };
}

// What one rank puts in.
std::vector<PlantedRow> ContributionRows() {
  const auto gradient = MovesInStep(kFirstParameter, Phase::kFinalize, 1);
  const std::string gradient_site = "step 1 finalize " + kFirstParameter + " main_grad";
  return {
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
  };
}

// What is made of a sum.
std::vector<PlantedRow> ResultRows() {
  const auto proj = Moves(kProj, Phase::kForward);
  const auto gradient = MovesInStep(kFirstParameter, Phase::kFinalize, 1);
  const std::string proj_site = "step 1 microbatch 0 forward " + kProj + " value";
  const std::string gradient_site = "step 1 finalize " + kFirstParameter + " main_grad";
  return {
      {"ResultScaledOnOneRank",
       kGpt,
       kTp2Dp3,
       OnOneRank(3, [=] { return ScaleResult(gradient, 0.5); }),
       kValue,
       {3},
       gradient_site,
       "dp-cp{1,3,5}",
       "actual = 1/2 (1/num_microbatches) * reference"},
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
       "actual = 1/2 (1/num_microbatches) * reference"},
  };
}

// Payloads that are corrupted.
std::vector<PlantedRow> PayloadRows() {
  const auto proj = Moves(kProj, Phase::kForward);
  const auto gradient = MovesInStep(kFirstParameter, Phase::kFinalize, 1);
  const std::string proj_site = "step 1 microbatch 0 forward " + kProj + " value";
  const std::string gradient_site = "step 1 finalize " + kFirstParameter + " main_grad";
  return {
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
       OnOneRank(1, [=] { return AddToResult(proj, 0.25); }),
       kValue,
       {1},
       proj_site,
       "tp{0,1,2,3}",
       "actual = reference +0.25"},
  };
}

// Results that are old, or in another order.
std::vector<PlantedRow> OrderRows() {
  const auto proj = Moves(kProj, Phase::kForward);
  return {
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
  };
}

// Two reductions in swapped order.
std::vector<PlantedRow> SwappedRows() {
  const auto swap = OnOneRank(3, [] { return SwapWithNext(MovesEitherNorm()); });
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
  };
}

// Other things that the ranks disagree about.
std::vector<PlantedRow> DisagreementRows() {
  const auto skip = OnOneRank(3, [] { return Skip(Nth(0, MovesEitherNorm())); });
  const std::string site = "step 1 finalize " + kNorm + ".weight main_grad";
  return {
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

}  // namespace

void PrintTo(const PlantedRow& row, std::ostream* out) { *out << row.name; }

std::vector<PlantedRow> AllPlantedRows() {
  std::vector<PlantedRow> all;
  for (const auto& some : {GradientPolicyRows(), LayerPolicyRows(), NormPolicyRows(), DroppedRows(),
                           ContributionRows(), ResultRows(), PayloadRows(), OrderRows(),
                           SwappedRows(), DisagreementRows()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

}  // namespace plumbline
