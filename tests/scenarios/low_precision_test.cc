// Runs in bf16 and fp16 against the f64 reference and their noise floor.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "scenarios/verify.h"
#include "tests/scenarios/plants.h"
#include "tests/scenarios/scenario_testing.h"

namespace plumbline {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr DType kHalves[] = {DType::kBF16, DType::kF16};

const ComparedQuantity& Find(const Verdict& verdict, const std::string& name) {
  const auto found =
      std::find_if(verdict.compared.begin(), verdict.compared.end(),
                   [&](const ComparedQuantity& one) { return one.quantity == name; });
  EXPECT_NE(found, verdict.compared.end()) << name;
  return *found;
}

Scenario MakeHalf(size_t model, const Layout& layout, DType dtype, int microbatches = 2) {
  Scenario scenario = MakeScenario(NamedModels()[model], layout, microbatches);
  scenario.config.dtype = dtype;
  return scenario;
}

struct Clean {
  std::string name;
  Layout layout;
  std::function<void(RunConfig&)> change = [](RunConfig&) {};
};

void PrintTo(const Clean& one, std::ostream* out) { *out << one.name; }

std::vector<Clean> CleanLayouts() {
  const auto sharded = [](ShardingStrategy strategy) {
    return [strategy](RunConfig& config) {
      config.parallel.data.gradient_buffers = true;
      config.parallel.data.sharding_strategy = strategy;
    };
  };
  return {{"one_rank", {}},
          {"tp2", {2, 1, false}},
          {"tp8", {8, 1, false}},
          {"dp3", {1, 3, false}},
          {"tp2dp2sp", {2, 2, true}},
          {"tp4dp2sp", {4, 2, true}},
          {"kv", {8, 1, true, GqaPolicy::kReplicateKv}},
          {"pp2", {1, 1, false}, [](RunConfig& config) { config.parallel.pp = 2; }},
          {"pp2tp2dp2", {2, 2, true}, [](RunConfig& config) { config.parallel.pp = 2; }},
          {"buffers", {2, 2, true}, sharded(ShardingStrategy::kNoShard)},
          {"optim", {1, 4, false}, sharded(ShardingStrategy::kOptim)},
          {"optim_grads_params", {2, 2, false}, sharded(ShardingStrategy::kOptimGradsParams)},
          {"grads_in_param_dtype", {2, 2, true}, [](RunConfig& config) {
             config.parallel.data.gradient_buffers = true;
             config.parallel.data.grads_in_param_dtype = true;
           }}};
}

class CleanTest : public ::testing::TestWithParam<Clean> {};

TEST_P(CleanTest, StaysWithinTheMultipleOfTheFloor) {
  for (size_t model = 0; model < NamedModels().size(); ++model) {
    for (DType dtype : kHalves) {
      Scenario scenario = MakeHalf(model, GetParam().layout, dtype);
      GetParam().change(scenario.config);
      const Verdict verdict = VerifyText(scenario);
      EXPECT_TRUE(verdict.pass) << NamedModels()[model].name << " " << Name(dtype) << "\n"
                                << Describe(verdict);
      EXPECT_THAT(verdict.findings, IsEmpty());
      for (const ComparedQuantity& quantity : verdict.compared) {
        EXPECT_LE(quantity.worst, quantity.bound) << Describe(verdict);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, CleanTest, ::testing::ValuesIn(CleanLayouts()),
                         [](const auto& instance) { return instance.param.name; });

TEST(LowPrecisionTest, VerdictSaysUnitsFloorsAndBounds) {
  for (DType dtype : kHalves) {
    const Verdict verdict = VerifyText(MakeHalf(0, {2, 2, true}, dtype));
    ASSERT_TRUE(verdict.low_precision);
    const LowPrecisionVerdict& of = *verdict.low_precision;
    EXPECT_EQ(of.dtype, dtype);
    EXPECT_EQ(of.unit, dtype == DType::kBF16 ? 0x1p-8 : 0x1p-11);
    EXPECT_GE(of.runs, 3);
    EXPECT_EQ(Find(verdict, "initial parameter").worst, 0);
    EXPECT_EQ(Find(verdict, "initial parameter").bound, 0);
    for (const char* name : {"forward value", "activation gradient", "main_grad"}) {
      const ComparedQuantity& quantity = Find(verdict, name);
      EXPECT_GT(quantity.floor, 0) << name;
      EXPECT_DOUBLE_EQ(quantity.bound, of.multiple * std::max(quantity.floor, of.minimum * of.unit))
          << name;
      EXPECT_GT(quantity.worst, 0.1 * of.unit) << name << ": this was not computed in f64";
    }
    EXPECT_GT(Find(verdict, "main_param").values, 0);
    EXPECT_GT(Find(verdict, "exp_avg").floor, 0);
    EXPECT_EQ(Find(verdict, "counter").worst, 0);
  }
}

// The bound has little room: a correct layout is flagged when it may be off by half its floor.
TEST(LowPrecisionTest, HalfTheFloorFlagsCleanRuns) {
  for (DType dtype : kHalves) {
    Scenario scenario = MakeHalf(0, {2, 2, true}, dtype);
    scenario.noise_floor.multiple = 0.5;
    scenario.noise_floor.minimum = 0;
    EXPECT_FALSE(VerifyText(scenario).pass);
  }
}

TEST(LowPrecisionTest, VerdictIsTheSameOnEverySchedule) {
  Scenario scenario = MakeHalf(3, {4, 2, true}, DType::kBF16);
  const std::string first = Describe(VerifyText(scenario));
  EXPECT_EQ(Describe(VerifyText(scenario)), first);
  scenario.world.policy = SchedulePolicy::kRandom;
  scenario.world.seed = 77;
  EXPECT_EQ(Describe(VerifyText(scenario)), first);
}

struct Planted {
  std::string name;
  size_t model;
  Layout layout;
  std::function<void(Scenario&)> plant;
  std::string site;     // a part of the first finding's
  std::string formula;  // a part; empty: none is asked for
};

void PrintTo(const Planted& one, std::ostream* out) { *out << one.name; }

std::vector<Planted> MistakesOfReductions() {
  return {{"bias_on_every_tp_rank",
           0,
           {2, 2, false},
           [](Scenario& scenario) {
             scenario.policies.bias_before_reduction = [](const std::string&, int) { return true; };
           },
           "step 1 microbatch 0 forward decoder.layers.0.self_attention.linear_proj value",
           "linear_proj.bias"},
          {"sum_for_average",
           0,
           {2, 3, true},
           [](Scenario& scenario) {
             scenario.policies.data_parallel.reduce_op_per_microbatch = ReduceOp::kSum;
           },
           "step 1 finalize embedding.word_embeddings.weight main_grad",
           "3 (dp) * reference"},
          {"average_for_sum_of_tokens",
           3,
           {2, 3, true},
           [](Scenario& scenario) {
             scenario.policies.data_parallel.reduce_op_per_token = ReduceOp::kAvg;
           },
           "step 1 finalize embedding.word_embeddings.weight main_grad",
           "1/3 (1/dp) * reference"},
          {"reduced_over_the_wrong_group",
           0,
           {2, 3, true},
           [](Scenario& scenario) { scenario.policies.data_parallel.group_axes = "tp"; },
           "step 1 finalize embedding.word_embeddings.weight main_grad",
           ""},
          {"norm_gradients_not_summed",
           0,
           {2, 1, true},
           [](Scenario& scenario) {
             scenario.policies.sum_sequence_parallel_gradient = [](const std::string& parameter) {
               return parameter.find("layernorm") == std::string::npos;
             };
           },
           "step 1 finalize decoder.layers.0.input_layernorm.weight main_grad",
           ""}};
}

std::vector<Planted> OtherMistakes() {
  return {{"replicas_counted_twice_in_the_norm",
           0,
           {4, 1, false},
           [](Scenario& scenario) {
             scenario.policies.grad_norm.counts = [](const std::string&, bool, int) {
               return true;
             };
           },
           "step 1 norm grad_norm value",
           ""},
          {"loss_divided_twice",
           0,
           {2, 1, false},
           [](Scenario& scenario) {
             scenario.policies.loss_divisor = [](int64_t microbatches) {
               return microbatches * microbatches;
             };
           },
           "step 1 microbatch 0 backward output_layer gradient",
           "1/2"},
          {"one_gradient_five_percent_off",
           4,
           {2, 2, true},
           OnEveryRank([] {
             return ScaleResult(Moves("decoder.layers.0.mlp.linear_fc1.weight", Phase::kFinalize),
                                1.05);
           }),
           "step 1 finalize decoder.layers.0.mlp.linear_fc1.weight main_grad",
           ""},
          {"another_weight_decay",
           0,
           {2, 1, false},
           [](Scenario& scenario) {
             scenario.policies.weight_decay = [](const std::string&, double) { return 5.0; };
           },
           "step 1 step",
           ""}};
}

std::vector<Planted> PlantedMistakes() {
  std::vector<Planted> all = MistakesOfReductions();
  for (const Planted& one : OtherMistakes()) all.push_back(one);
  return all;
}

class PlantedTest : public ::testing::TestWithParam<Planted> {};

TEST_P(PlantedTest, IsFoundInBothDTypes) {
  for (DType dtype : kHalves) {
    Scenario scenario = MakeHalf(GetParam().model, GetParam().layout, dtype);
    GetParam().plant(scenario);
    const Verdict verdict = VerifyText(scenario);
    EXPECT_FALSE(verdict.pass);
    ASSERT_FALSE(verdict.findings.empty());
    const Finding& first = verdict.findings.front();
    EXPECT_THAT(ToString(first.site), HasSubstr(GetParam().site)) << Describe(verdict);
    EXPECT_THAT(first.formula, HasSubstr(GetParam().formula)) << Describe(verdict);
  }
}

INSTANTIATE_TEST_SUITE_P(All, PlantedTest, ::testing::ValuesIn(PlantedMistakes()),
                         [](const auto& instance) { return instance.param.name; });

// Main gradients in 16 bits are within the noise of a few microbatches: no bound tells. Their sums
// are looked at exactly.
TEST(LowPrecisionTest, AccumulationIn16BitsIsFlaggedAtItsMicrobatch) {
  for (DType dtype : kHalves) {
    for (const bool buffers : {false, true}) {
      Scenario scenario = MakeHalf(4, {2, 1, false}, dtype, 4);
      scenario.config.parallel.data.gradient_buffers = buffers;
      scenario.change_rank = [](int, RunConfig& config, Policies&) {
        config.parallel.data.grads_in_param_dtype = true;
      };
      const Verdict verdict = VerifyText(scenario);
      EXPECT_FALSE(verdict.pass);
      ASSERT_FALSE(verdict.findings.empty());
      const Finding& first = verdict.findings.front();
      EXPECT_EQ(first.kind, FindingClass::kAccumulation) << Describe(verdict);
      // The first addition to 0 is exact.
      EXPECT_EQ(first.site.step, 1);
      EXPECT_EQ(first.site.microbatch, 1);
      EXPECT_THAT(first.ranks, ElementsAre(0, 1));
      EXPECT_THAT(first.message, AllOf(HasSubstr(std::string(Name(dtype)) + " main_grad holds"),
                                       HasSubstr("in f32")));
    }
  }
}

// A tied word table gets two gradients a microbatch.
TEST(LowPrecisionTest, AccumulationOfATiedTableIsFlaggedAtItsSecondGradient) {
  Scenario scenario = MakeHalf(0, {1, 1, false}, DType::kBF16);
  scenario.change_rank = [](int, RunConfig& config, Policies&) {
    config.parallel.data.grads_in_param_dtype = true;
  };
  const Verdict verdict = VerifyText(scenario);
  ASSERT_FALSE(verdict.findings.empty());
  EXPECT_EQ(verdict.findings.front().kind, FindingClass::kAccumulation) << Describe(verdict);
  EXPECT_EQ(verdict.findings.front().site.microbatch, 0);
  EXPECT_EQ(verdict.findings.front().site.tensor, "embedding.word_embeddings.weight");
}

TEST(LowPrecisionTest, AccumulationOfOneRankIsFlaggedAlone) {
  Scenario scenario = MakeHalf(4, {1, 2, false}, DType::kBF16, 3);
  scenario.change_rank = [](int rank, RunConfig& config, Policies&) {
    config.parallel.data.grads_in_param_dtype = rank == 1;
  };
  scenario.world.fingerprint = false;  // the ranks' collectives differ too: this is not about them
  const Verdict verdict = VerifyText(scenario);
  ASSERT_FALSE(verdict.findings.empty());
  const Finding& first = verdict.findings.front();
  EXPECT_EQ(first.kind, FindingClass::kAccumulation) << Describe(verdict);
  EXPECT_THAT(first.ranks, ElementsAre(1));
  EXPECT_EQ(first.site.microbatch, 3) << "rank 1 has microbatches 1, 3 and 5";
}

// A gradient buffer, whole or sharded, that keeps the last step's sum.
TEST(LowPrecisionTest, BufferThatIsNotZeroedIsFlaggedAtTheNextStepsFirstAddition) {
  for (const ShardingStrategy strategy : {ShardingStrategy::kNoShard, ShardingStrategy::kOptim,
                                          ShardingStrategy::kOptimGradsParams}) {
    Scenario scenario = MakeHalf(0, {2, 2, true}, DType::kBF16);
    scenario.max_findings = 1000;
    scenario.config.parallel.data.gradient_buffers = true;
    scenario.config.parallel.data.sharding_strategy = strategy;
    scenario.policies.data_parallel.zeroes_gradients = [](int64_t step, int microbatch) {
      return step == 1 && microbatch == 0;
    };
    const Verdict verdict = VerifyText(scenario);
    const auto accumulation = std::find_if(
        verdict.findings.begin(), verdict.findings.end(),
        [](const Finding& finding) { return finding.kind == FindingClass::kAccumulation; });
    ASSERT_NE(accumulation, verdict.findings.end()) << Name(strategy) << Describe(verdict);
    EXPECT_EQ(accumulation->site.step, 2) << Name(strategy);
    EXPECT_EQ(accumulation->site.microbatch, 0) << Name(strategy);
  }
}

}  // namespace
}  // namespace plumbline
