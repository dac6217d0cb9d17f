#include "parallel/sequence/replicated_gradients.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/compare.h"
#include "tests/parallel/tensor/module_world.h"

namespace plumbline {
namespace {

// Each rank's gradient is its rank plus one; what is left after the sum.
struct Sums {
  std::vector<double> norm;
  std::vector<double> weight;
};

Sums SumsOf(int tp, bool sequence_parallel, const Policies& policies = DefaultPolicies()) {
  Sums sums;
  OnEachRank(
      TensorParallelConfig(tp, sequence_parallel),
      [&](const RankEnv& env) {
        Parameter norm = MakeParameter(env, 0, "norm.weight", {1}, {});
        norm.sequence_parallel = env.sequence_parallel();
        Parameter weight = MakeParameter(env, 0, "w", {8, 1}, {BlockCut()(0)});
        for (Parameter* parameter : {&norm, &weight}) {
          Tensor gradient = ZeroTensor(parameter->value.shape());
          for (int64_t i = 0; i < gradient.elements(); ++i) {
            gradient.data<double>()[i] = env.tp_rank() + 1;
          }
          parameter->AddGradient(env, Pass{}, gradient);
        }
        Parameter* const parameters[] = {&norm, &weight};
        SumSequenceParallelGradients(env, 1, parameters);
        sums.norm.push_back(norm.main_grad.at<double>({0}));
        sums.weight.push_back(weight.main_grad.at<double>({0, 0}));
      },
      policies);
  return sums;
}

TEST(ReplicatedGradients, AreSummedUnderSequenceParallelism) {
  const Sums sums = SumsOf(4, true);
  EXPECT_EQ(sums.norm, (std::vector<double>{10, 10, 10, 10}));
}

TEST(ReplicatedGradients, ShardedParametersAreLeftAlone) {
  std::vector<double> weight = SumsOf(4, true).weight;
  std::sort(weight.begin(), weight.end());
  EXPECT_EQ(weight, (std::vector<double>{1, 2, 3, 4}));
}

TEST(ReplicatedGradients, NothingIsSummedWithoutSequenceParallelism) {
  std::vector<double> norm = SumsOf(4, false).norm;
  std::sort(norm.begin(), norm.end());
  EXPECT_EQ(norm, (std::vector<double>{1, 2, 3, 4}));
}

TEST(ReplicatedGradients, ThePolicySaysWhich) {
  Policies none;
  none.sum_sequence_parallel_gradient = [](const std::string& name) {
    return name != "norm.weight";
  };
  std::vector<double> norm = SumsOf(2, true, none).norm;
  std::sort(norm.begin(), norm.end());
  EXPECT_EQ(norm, (std::vector<double>{1, 2}));
}

}  // namespace
}  // namespace plumbline
