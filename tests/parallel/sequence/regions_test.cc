#include "parallel/sequence/regions.h"

#include <gtest/gtest.h>

#include <tuple>

#include "base/compare.h"
#include "kernels/elementwise.h"
#include "parallel/tensor/parameter.h"
#include "parallel/tensor/tap.h"
#include "tests/parallel/tensor/module_world.h"

namespace plumbline {
namespace {

const Shape kShape = {8, 2, 3};

class RegionsTest : public testing::TestWithParam<int> {
 protected:
  RunConfig config() const { return TensorParallelConfig(GetParam(), true); }
  static LocalPiece Rows(const RankEnv& env) {
    return MakeLayout(env, {"x", kShape, {BlockCut()(0)}}).piece;
  }
  // The sum over ranks, added in rank order.
  Tensor SumOfTerms() const {
    Tensor sum = Numbers(kShape, 100);
    for (int rank = 1; rank < GetParam(); ++rank)
      AddInto(Context{}, sum, Numbers(kShape, 100 + rank));
    return sum;
  }
};

TEST_P(RegionsTest, GatherUndoesScatter) {
  const Tensor x = Numbers(kShape, 1);
  OnEachRank(config(), [&](const RankEnv& env) {
    const Tensor rows = ScatterSequence(env, x);
    EXPECT_TRUE(BitEqual(rows, PieceOfWhole(x, Rows(env))));
    EXPECT_TRUE(BitEqual(GatherSequence(env, rows, {}), x));
  });
}

TEST_P(RegionsTest, ReduceScatterIsTheScatteredSumBitForBit) {
  const Tensor sum = SumOfTerms();
  OnEachRank(config(), [&](const RankEnv& env) {
    const Tensor term = Numbers(kShape, 100 + env.tp_rank());
    EXPECT_TRUE(BitEqual(ReduceScatterSequence(env, term, {}), PieceOfWhole(sum, Rows(env))));
    EXPECT_TRUE(BitEqual(SumOverTp(env, term.Clone(Context{}), {}), sum));
  });
}

TEST_P(RegionsTest, TheBordersFollowTheConfiguration) {
  const Tensor sum = SumOfTerms();
  for (bool sequence_parallel : {false, true}) {
    OnEachRank(TensorParallelConfig(GetParam(), sequence_parallel), [&](const RankEnv& env) {
      const Tensor out = LeaveTensorParallel(env, Numbers(kShape, 100 + env.tp_rank()), {});
      const bool split = sequence_parallel && GetParam() > 1;
      EXPECT_TRUE(BitEqual(out, split ? PieceOfWhole(sum, Rows(env)) : sum));
      EXPECT_TRUE(BitEqual(EnterTensorParallel(env, out, {}), sum));
    });
  }
}

INSTANTIATE_TEST_SUITE_P(TensorParallel, RegionsTest, testing::Values(1, 2, 4, 8),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace plumbline
