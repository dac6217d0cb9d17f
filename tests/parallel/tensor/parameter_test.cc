#include "parallel/tensor/parameter.h"

#include <gtest/gtest.h>

#include "base/compare.h"
#include "tests/parallel/tensor/module_world.h"

namespace plumbline {
namespace {

Tensor Whole(const std::string& name, Shape shape) {
  const RunConfig config = TensorParallelConfig(1, false);
  Tensor whole = ZeroTensor(std::move(shape));
  SeededParameters(config.model, config.train.seed).FillWhole(name, whole);
  return whole;
}

class ParameterTest : public testing::TestWithParam<int> {};

TEST_P(ParameterTest, InitialValuesDoNotDependOnTheSharding) {
  const Tensor whole = Whole("w", {16, 24});
  OnEachRank(TensorParallelConfig(GetParam(), false), [&](const RankEnv& env) {
    const std::vector<std::vector<AxisPlacement>> placements = {
        {}, {BlockCut()(0)}, {BlockCut()(1)}, {SegmentsCut(2)(0)}};
    for (const auto& placement : placements) {
      const Parameter parameter = MakeParameter(env, 2, "w", {16, 24}, placement);
      EXPECT_TRUE(BitEqual(parameter.value, PieceOfWhole(whole, parameter.layout.piece)));
      EXPECT_EQ(parameter.tensor_parallel, !placement.empty());
      EXPECT_EQ(MaxAbs(parameter.main_grad), 0);
    }
  });
}

TEST_P(ParameterTest, PaddingRowsAreZero) {
  const Tensor whole = Whole("w", {19, 4});
  OnEachRank(TensorParallelConfig(GetParam(), false), [&](const RankEnv& env) {
    const Parameter parameter = MakeParameter(env, -1, "w", {19, 4}, {PaddedBlockCut()(0)});
    EXPECT_EQ(parameter.value.dim(0), (19 + env.tp_size() - 1) / env.tp_size());
    EXPECT_TRUE(BitEqual(parameter.value, PieceOfWhole(whole, parameter.layout.piece)));
  });
}

TEST_P(ParameterTest, EveryElementCountsOnceInTheNorm) {
  const int tp = GetParam();
  int64_t replicated = 0;
  int64_t sharded = 0;
  int64_t copied = 0;
  OnEachRank(TensorParallelConfig(tp, false), [&](const RankEnv& env) {
    const auto counted = [&](const Parameter& parameter) {
      const Tensor gradient = parameter.CountedGradient(env);
      return gradient.defined() ? gradient.elements() : 0;
    };
    replicated += counted(MakeParameter(env, -1, "n", {24}, {}));
    sharded += counted(MakeParameter(env, -1, "w", {16, 24}, {BlockCut()(0)}));
    // Two rows of its own on each rank, and one that all ranks hold.
    std::vector<std::vector<int64_t>> rows;
    for (int rank = 0; rank < tp; ++rank) rows.push_back({2 * rank, 2 * rank + 1, 16});
    Parameter parameter =
        MakeParameter(env, -1, "kv", {17, 3}, {Sharded("tp", {ShardStep::Rows(0, rows)})});
    parameter.replicated_rows = ReplicatedRows{env.tp(), 2};
    copied += counted(parameter);
  });
  EXPECT_EQ(replicated, 24);
  EXPECT_EQ(sharded, 16 * 24);
  EXPECT_EQ(copied, (2 * tp + 1) * 3);
}

INSTANTIATE_TEST_SUITE_P(TensorParallel, ParameterTest, testing::Values(1, 2, 4, 8),
                         testing::PrintToStringParamName());

TEST(Parameter, WeightDecayIsForTwoDimensions) {
  OnEachRank(TensorParallelConfig(1, false), [](const RankEnv& env) {
    EXPECT_TRUE(MakeParameter(env, 0, "a.weight", {4, 4}, {}).weight_decay);
    EXPECT_FALSE(MakeParameter(env, 0, "a.bias", {4}, {}).weight_decay);
    EXPECT_FALSE(MakeParameter(env, 0, "norm.weight", {4}, {}).weight_decay);
  });
}

TEST(Parameter, GradientsAccumulate) {
  OnEachRank(TensorParallelConfig(1, false), [](const RankEnv& env) {
    Parameter parameter = MakeParameter(env, 7, "w", {3}, {});
    parameter.AddGradient(env, Pass{}, Tensor::FromVector<double>(Context{}, {3}, {1, 2, 3}));
    parameter.AddGradient(env, Pass{}, Tensor::FromVector<double>(Context{}, {3}, {10, 20, 30}));
    EXPECT_EQ(parameter.main_grad.ToVector<double>(), (std::vector<double>{11, 22, 33}));
    const Site site = parameter.At(5, Phase::kFinalize, Quantity::kMainGrad);
    EXPECT_EQ(ToString(site), "step 5 layer 7 finalize w main_grad");
  });
}

}  // namespace
}  // namespace plumbline
