#include "scenarios/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>

#include "base/error.h"
#include "tests/base/sweep.h"
#include "tests/scenarios/scenario_testing.h"

namespace plumbline {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;

struct Case {
  NamedModel model;
  Layout layout;
};

void PrintTo(const Case& one, std::ostream* out) {
  *out << one.model.name << "/" << NameOf(one.layout);
}

// Where groups are fewer than ranks both policies run.
std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const NamedModel& model : NamedModels()) {
    for (Layout layout : LayoutsUpTo8()) {
      cases.push_back({model, layout});
      if (model.model.num_query_groups >= layout.tp) continue;
      layout.gqa_policy = GqaPolicy::kReplicateKv;
      cases.push_back({model, layout});
    }
  }
  return SweepOf(std::move(cases));
}

const ComparedQuantity* Find(const Verdict& verdict, const std::string& name) {
  const auto found =
      std::find_if(verdict.compared.begin(), verdict.compared.end(),
                   [&](const ComparedQuantity& one) { return one.quantity == name; });
  return found == verdict.compared.end() ? nullptr : &*found;
}

class LayoutTest : public ::testing::TestWithParam<Case> {};

TEST_P(LayoutTest, EqualsTheReference) {
  const Scenario scenario = MakeScenario(GetParam().model, GetParam().layout);
  const Verdict verdict = VerifyText(scenario);
  EXPECT_TRUE(verdict.pass) << Describe(verdict);
  EXPECT_TRUE(verdict.completed);
  EXPECT_THAT(verdict.findings, IsEmpty());
  for (const ComparedQuantity& quantity : verdict.compared) {
    EXPECT_LE(quantity.worst, quantity.bound) << Describe(verdict);
  }
  for (const char* name : {"initial parameter", "forward value", "activation gradient", "main_grad",
                           "loss and norm", "parameter", "exp_avg", "counter"}) {
    EXPECT_NE(Find(verdict, name), nullptr) << name << "\n" << Describe(verdict);
  }
  const bool adam = scenario.config.train.optimizer == OptimizerKind::kAdam;
  EXPECT_EQ(Find(verdict, "exp_avg_sq") != nullptr, adam);
  EXPECT_EQ(Find(verdict, "replicas") != nullptr, scenario.config.parallel.world_size() > 1);
}

INSTANTIATE_TEST_SUITE_P(All, LayoutTest, ::testing::ValuesIn(AllCases()), [](const auto& info) {
  return info.param.model.name + "_" + NameOf(info.param.layout);
});

// Two scenarios that run in every test below.
Scenario SmallScenario() { return MakeScenario(NamedModels()[0], {2, 3, true}, 3); }

TEST(VerifyTest, F32StaysWithinItsBound) {
  for (const NamedModel& model : NamedModels()) {
    Scenario scenario = MakeScenario(model, {4, 2, true});
    scenario.config.dtype = DType::kF32;
    const Verdict verdict = VerifyText(scenario);
    EXPECT_TRUE(verdict.pass) << model.name << "\n" << Describe(verdict);
    EXPECT_GT(Find(verdict, "main_grad")->worst, 1e-11) << "f32 is not f64";
  }
}

TEST(VerifyTest, EveryMeshOrderEqualsTheReference) {
  for (const char* order : {"dp-tp-cp-ep-pp", "tp-cp-ep-dp-pp", "dp-cp-ep-pp-tp"}) {
    Scenario scenario = SmallScenario();
    scenario.config.parallel.order = order;
    const Verdict verdict = VerifyText(scenario);
    EXPECT_TRUE(verdict.pass) << order << "\n" << Describe(verdict);
  }
}

TEST(VerifyTest, SameSeedGivesTheSameVerdictToTheLastDigit) {
  Scenario scenario = SmallScenario();
  scenario.world.policy = SchedulePolicy::kRandom;
  scenario.world.seed = 5;
  const std::string first = Describe(VerifyText(scenario));
  EXPECT_EQ(Describe(VerifyText(scenario)), first);
  // And so does a failing one.
  scenario.policies.data_parallel.reduce_op_per_microbatch = ReduceOp::kSum;
  const std::string failing = Describe(VerifyText(scenario));
  EXPECT_NE(failing, first);
  EXPECT_EQ(Describe(VerifyText(scenario)), failing);
}

TEST(VerifyTest, VerdictDoesNotDependOnTheSchedule) {
  Scenario scenario = SmallScenario();
  const std::string expected = Describe(VerifyText(scenario));
  scenario.world.policy = SchedulePolicy::kRandom;
  for (scenario.world.seed = 1; scenario.world.seed <= 3; ++scenario.world.seed) {
    EXPECT_EQ(Describe(VerifyText(scenario)), expected) << "schedule " << scenario.world.seed;
  }
}

TEST(VerifyTest, FindingsAreCappedAndCounted) {
  Scenario scenario = SmallScenario();
  scenario.policies.data_parallel.reduce_op_per_microbatch = ReduceOp::kSum;
  scenario.max_findings = 3;
  scenario.repeat = "plumbline verify --tp 2";
  const Verdict verdict = VerifyText(scenario);
  EXPECT_FALSE(verdict.pass);
  ASSERT_EQ(verdict.findings.size(), 3U);
  EXPECT_GT(verdict.more_findings, 0);
  for (const Finding& finding : verdict.findings) EXPECT_EQ(finding.repeat, scenario.repeat);
  EXPECT_THAT(verdict.findings[0].formula, Not(IsEmpty()));
}

TEST(VerifyTest, ProgressGrowsToOne) {
  Scenario scenario = SmallScenario();
  std::vector<double> fractions;
  scenario.progress = [&](double fraction, const std::string&) { fractions.push_back(fraction); };
  VerifyText(scenario);
  ASSERT_GT(fractions.size(), 9U);
  EXPECT_TRUE(std::is_sorted(fractions.begin(), fractions.end()));
  EXPECT_EQ(fractions.back(), 1.0);
}

TEST(VerifyTest, IllegalConfigurationIsRefused) {
  Scenario scenario = SmallScenario();
  scenario.config.parallel.tp = 3;
  EXPECT_THROW(VerifyText(scenario), InvalidArgument);
  scenario = SmallScenario();
  scenario.max_findings = 0;
  EXPECT_THROW(VerifyText(scenario), InvalidArgument);
}

// A batch source that fails at the second step.
class FailingBatches : public BatchSource {
 public:
  explicit FailingBatches(const BatchSource& inner) : inner_(inner) {}
  Batch Get(const Context& context, int64_t step, int64_t microbatch) const override {
    if (step > 1) throw IoError("no more samples");
    return inner_.Get(context, step, microbatch);
  }

 private:
  const BatchSource& inner_;
};

TEST(VerifyTest, ErrorOfTheInputsEndsBothPrograms) {
  const Scenario scenario = SmallScenario();
  const SeededParameters parameters(scenario.config.model, 1);
  const TextBatches text(scenario.config.model, scenario.config.train, {1, 2, 3, 4, 5});
  const FailingBatches batches(text);
  EXPECT_THROW(Verify(scenario, {parameters, batches}), IoError);
}

}  // namespace
}  // namespace plumbline
