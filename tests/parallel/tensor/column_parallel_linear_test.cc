#include "parallel/tensor/column_parallel_linear.h"

#include <gtest/gtest.h>

#include <tuple>

#include "base/compare.h"
#include "kernels/elementwise.h"
#include "kernels/matmul.h"
#include "parallel/tensor/tap.h"
#include "tests/parallel/tensor/module_world.h"

namespace plumbline {
namespace {

constexpr int64_t kIn = 12;
constexpr int64_t kOut = 48;
const Shape kInputShape = {8, 2, kIn};
const Shape kOutputShape = {8, 2, kOut};

enum class Cut { kBlock, kSegments };

// tp, sequence parallelism, cut.
class ColumnParallelLinearTest : public testing::TestWithParam<std::tuple<int, bool, Cut>> {
 protected:
  RunConfig config() const {
    return TensorParallelConfig(std::get<0>(GetParam()), std::get<1>(GetParam()));
  }
  ColumnParallelLinear::Options options() const {
    return {.layer = 3,
            .name = "fc",
            .input_tensor = "x",
            .input_size = kIn,
            .output_size = kOut,
            .cut = std::get<2>(GetParam()) == Cut::kBlock ? BlockCut() : SegmentsCut(2)};
  }
  ObservedLayout InputLayout(const RankEnv& env) const {
    std::vector<AxisPlacement> placements;
    if (env.sequence_parallel()) placements = {BlockCut()(0)};
    return MakeLayout(env, {"x", kInputShape, placements});
  }
  // The unsharded layer's parameters, from the same source.
  Tensor Whole(const std::string& name, Shape shape) const {
    Tensor whole = ZeroTensor(std::move(shape));
    SeededParameters(config().model, config().train.seed).FillWhole(name, whole);
    return whole;
  }
};

TEST_P(ColumnParallelLinearTest, ForwardIsBitEqualToTheSameColumnsOfTheUnshardedProduct) {
  const Tensor x = Numbers(kInputShape, 1);
  const Tensor whole_y = AddBias(Context{}, MatmulNT(Context{}, x, Whole("fc.weight", {kOut, kIn})),
                                 Whole("fc.bias", {kOut}));
  int ranks = 0;
  OnEachRank(config(), [&](const RankEnv& env) {
    ColumnParallelLinear linear(env, options());
    ColumnParallelLinear::Saved saved;
    const Tensor y = linear.Forward(ForwardPass(), PieceOfWhole(x, InputLayout(env).piece), saved);
    const ObservedLayout layout = MakeLayout(env, {"y", kOutputShape, {options().cut(2)}});
    EXPECT_TRUE(BitEqual(y, PieceOfWhole(whole_y, layout.piece)));
    ++ranks;
  });
  EXPECT_EQ(ranks, config().parallel.tp);
}

TEST_P(ColumnParallelLinearTest, BackwardGivesTheUnshardedGradients) {
  const Tensor x = Numbers(kInputShape, 1);
  const Tensor dy = Numbers(kOutputShape, 2);
  const Tensor dx = MatmulNN(Context{}, dy, Whole("fc.weight", {kOut, kIn}));
  const Tensor dw = MatmulTN(Context{}, dy, x);
  const Tensor db = SumRows(Context{}, dy);
  OnEachRank(config(), [&](const RankEnv& env) {
    ColumnParallelLinear linear(env, options());
    ColumnParallelLinear::Saved saved;
    const LocalPiece x_piece = InputLayout(env).piece;
    linear.Forward(ForwardPass(), PieceOfWhole(x, x_piece), saved);
    const ObservedLayout layout = MakeLayout(env, {"y", kOutputShape, {options().cut(2)}});
    const Tensor local_dx = linear.Backward(BackwardPass(), PieceOfWhole(dy, layout.piece), saved);
    EXPECT_LE(Deviation(local_dx, PieceOfWhole(dx, x_piece)), 1e-14);
    // The rows of a weight's gradient sum over tokens, in the unsharded order.
    EXPECT_TRUE(
        BitEqual(linear.weight().main_grad, PieceOfWhole(dw, linear.weight().layout.piece)));
    EXPECT_TRUE(BitEqual(linear.bias()->main_grad, PieceOfWhole(db, linear.bias()->layout.piece)));
  });
}

INSTANTIATE_TEST_SUITE_P(Layouts, ColumnParallelLinearTest,
                         testing::Combine(testing::Values(1, 2, 4, 8), testing::Bool(),
                                          testing::Values(Cut::kBlock, Cut::kSegments)),
                         [](const auto& info) {
                           return LayoutName(TensorParallelConfig(std::get<0>(info.param),
                                                                  std::get<1>(info.param))) +
                                  (std::get<2>(info.param) == Cut::kBlock ? "block" : "segments");
                         });

TEST(ColumnParallelLinear, ATiedWeightCollectsBothGradients) {
  OnEachRank(TensorParallelConfig(2, false), [](const RankEnv& env) {
    Parameter table = MakeParameter(env, -1, "table", {kOut, kIn}, {BlockCut()(0)});
    ColumnParallelLinear linear(env,
                                {.name = "out",
                                 .input_tensor = "x",
                                 .input_size = kIn,
                                 .output_size = kOut,
                                 .cut = BlockCut()},
                                table);
    std::vector<Parameter*> owned;
    linear.AppendParameters(owned);
    EXPECT_TRUE(owned.empty());

    const Tensor x = Numbers(kInputShape, 1);
    const Tensor dy = Numbers({8, 2, kOut / 2}, 2);
    ColumnParallelLinear::Saved saved;
    linear.Forward(ForwardPass(), x, saved);
    linear.Backward(BackwardPass(), dy, saved);
    linear.Backward(BackwardPass(), dy, saved);
    const Tensor once = MatmulTN(Context{}, dy, x);
    EXPECT_TRUE(BitEqual(table.main_grad, Add(Context{}, once, once)));
  });
}

}  // namespace
}  // namespace plumbline
