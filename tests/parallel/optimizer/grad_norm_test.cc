#include "parallel/optimizer/grad_norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "parallel/model/gpt_model.h"
#include "tests/parallel/tensor/module_world.h"

namespace plumbline {
namespace {

struct Case {
  int tp;
  int64_t groups;
  GqaPolicy policy;
};
std::string CaseName(const Case& c) {
  return "tp" + std::to_string(c.tp) + "groups" + std::to_string(c.groups) +
         (c.policy == GqaPolicy::kGatherQkv ? "gather" : "replicate");
}
void PrintTo(const Case& c, std::ostream* out) { *out << CaseName(c); }

// The square of the norm of a gradient of ones is a count of elements.
double CountedElements(const Case& c, const Policies& policies = DefaultPolicies()) {
  RunConfig config = TensorParallelConfig(c.tp, false);
  config.model.num_query_groups = c.groups;
  config.parallel.gqa_policy = c.policy;
  std::vector<double> norms;
  OnEachRank(
      config,
      [&](const RankEnv& env) {
        const GptModel model(env, WholeModel(env.model()));
        for (Parameter* parameter : model.parameters()) {
          const std::vector<int64_t>& index = parameter->layout.piece.global_index;
          for (size_t i = 0; i < index.size(); ++i) {
            parameter->main_grad.data<double>()[i] = index[i] < 0 ? 0 : 1;
          }
        }
        norms.push_back(GradNorm(env, 1, model.parameters()).at<double>({}));
      },
      policies);
  for (double norm : norms) EXPECT_EQ(norm, norms[0]);
  return norms[0] * norms[0];
}

class GradNormTest : public testing::TestWithParam<Case> {};

TEST_P(GradNormTest, CountsEachElementOfTheModelOnce) {
  const Case& c = GetParam();
  const double one_rank = CountedElements({1, c.groups, c.policy});
  EXPECT_NEAR(CountedElements(c), one_rank, 1e-9 * one_rank);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, GradNormTest,
    testing::Values(Case{2, 4, GqaPolicy::kGatherQkv}, Case{4, 4, GqaPolicy::kGatherQkv},
                    Case{8, 4, GqaPolicy::kGatherQkv}, Case{8, 4, GqaPolicy::kReplicateKv},
                    Case{8, 1, GqaPolicy::kReplicateKv}, Case{4, 2, GqaPolicy::kReplicateKv}),
    [](const auto& info) { return CaseName(info.param); });

TEST(GradNorm, CountingCopiesOnEveryRankShows) {
  Policies everywhere;
  everywhere.grad_norm.counts = [](const std::string&, bool, int) { return true; };
  const Case c = {4, 4, GqaPolicy::kGatherQkv};
  EXPECT_GT(CountedElements(c, everywhere), 1.01 * CountedElements(c));
}

TEST(GradNorm, IsTheEuclideanNorm) {
  OnEachRank(TensorParallelConfig(1, false), [](const RankEnv& env) {
    Parameter a = MakeParameter(env, 0, "a", {2}, {});
    Parameter b = MakeParameter(env, 0, "b", {1}, {});
    a.AddGradient(env, Pass{}, Tensor::FromVector<double>(Context{}, {2}, {2, 3}));
    b.AddGradient(env, Pass{}, Tensor::FromVector<double>(Context{}, {1}, {-6}));
    Parameter* const parameters[] = {&a, &b};
    EXPECT_EQ(GradNorm(env, 1, parameters).at<double>({}), 7);
  });
}

}  // namespace
}  // namespace plumbline
