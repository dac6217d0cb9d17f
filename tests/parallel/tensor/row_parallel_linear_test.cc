#include "parallel/tensor/row_parallel_linear.h"

#include <gtest/gtest.h>

#include <tuple>

#include "base/compare.h"
#include "base/error.h"
#include "kernels/elementwise.h"
#include "kernels/matmul.h"
#include "parallel/tensor/tap.h"
#include "tests/parallel/tensor/module_world.h"

namespace plumbline {
namespace {

constexpr int64_t kIn = 48;
constexpr int64_t kOut = 12;
const Shape kInputShape = {8, 2, kIn};
const Shape kOutputShape = {8, 2, kOut};

RowParallelLinear::Options LinearOptions(bool skip_bias_add = false) {
  return {.name = "fc", .input_size = kIn, .output_size = kOut, .skip_bias_add = skip_bias_add};
}

LocalPiece InputPiece(const RankEnv& env) {
  return MakeLayout(env, {"x", kInputShape, {BlockCut()(2)}}).piece;
}

LocalPiece OutputPiece(const RankEnv& env) {
  std::vector<AxisPlacement> placements;
  if (env.sequence_parallel()) placements = {BlockCut()(0)};
  return MakeLayout(env, {"y", kOutputShape, placements}).piece;
}

Tensor Whole(const std::string& name, Shape shape) {
  const RunConfig config = TensorParallelConfig(1, false);
  Tensor whole = ZeroTensor(std::move(shape));
  SeededParameters(config.model, config.train.seed).FillWhole(name, whole);
  return whole;
}

// Runs the forward and puts the result together; whole copies must agree bit for bit.
Tensor RunForward(const RunConfig& config, const Policies& policies = DefaultPolicies()) {
  const Tensor x = Numbers(kInputShape, 1);
  Tensor whole = ZeroTensor(kOutputShape);
  std::vector<Tensor> copies;
  OnEachRank(
      config,
      [&](const RankEnv& env) {
        RowParallelLinear linear(env, LinearOptions());
        RowParallelLinear::Saved saved;
        const auto output = linear.Forward(ForwardPass(), PieceOfWhole(x, InputPiece(env)), saved);
        EXPECT_FALSE(output.bias.defined());
        if (!env.sequence_parallel()) copies.push_back(output.y.Clone(Context{}));
        PutPiece(output.y, OutputPiece(env), whole);
      },
      policies);
  for (const Tensor& copy : copies) EXPECT_TRUE(BitEqual(copy, copies[0]));
  return whole;
}

class RowParallelLinearTest : public testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  RunConfig config() const {
    return TensorParallelConfig(std::get<0>(GetParam()), std::get<1>(GetParam()));
  }
};

TEST_P(RowParallelLinearTest, ForwardIsTheUnshardedLayerWithTheBiasOnce) {
  const Tensor y = AddBias(
      Context{}, MatmulNT(Context{}, Numbers(kInputShape, 1), Whole("fc.weight", {kOut, kIn})),
      Whole("fc.bias", {kOut}));
  EXPECT_LE(Deviation(RunForward(config()), y), 1e-14);
}

TEST_P(RowParallelLinearTest, SequenceParallelismChangesNoBit) {
  RunConfig other = config();
  other.parallel.sequence_parallel = !other.parallel.sequence_parallel;
  EXPECT_TRUE(BitEqual(RunForward(config()), RunForward(other)));
}

TEST_P(RowParallelLinearTest, SkippedBiasIsHandedBack) {
  const Tensor x = Numbers(kInputShape, 1);
  const Tensor y = RunForward(config());
  OnEachRank(config(), [&](const RankEnv& env) {
    RowParallelLinear linear(env, LinearOptions(/*skip_bias_add=*/true));
    RowParallelLinear::Saved saved;
    const auto output = linear.Forward(ForwardPass(), PieceOfWhole(x, InputPiece(env)), saved);
    PL_CHECK(output.bias.defined());
    EXPECT_TRUE(
        BitEqual(AddBias(Context{}, output.y, output.bias), PieceOfWhole(y, OutputPiece(env))));
  });
}

TEST_P(RowParallelLinearTest, BackwardGivesTheUnshardedGradients) {
  const Tensor x = Numbers(kInputShape, 1);
  const Tensor dy = Numbers(kOutputShape, 2);
  const Tensor dx = MatmulNN(Context{}, dy, Whole("fc.weight", {kOut, kIn}));
  const Tensor dw = MatmulTN(Context{}, dy, x);
  const Tensor db = SumRows(Context{}, dy);
  Tensor bias_terms = ZeroTensor({kOut});
  OnEachRank(config(), [&](const RankEnv& env) {
    RowParallelLinear linear(env, LinearOptions());
    RowParallelLinear::Saved saved;
    const LocalPiece x_piece = InputPiece(env);
    linear.Forward(ForwardPass(), PieceOfWhole(x, x_piece), saved);
    const Tensor local_dx =
        linear.Backward(BackwardPass(), PieceOfWhole(dy, OutputPiece(env)), saved);
    EXPECT_TRUE(BitEqual(local_dx, PieceOfWhole(dx, x_piece)));
    EXPECT_TRUE(
        BitEqual(linear.weight().main_grad, PieceOfWhole(dw, linear.weight().layout.piece)));
    EXPECT_EQ(linear.bias()->sequence_parallel, env.sequence_parallel());
    if (env.sequence_parallel()) {
      AddInto(Context{}, bias_terms, linear.bias()->main_grad);
    } else {
      EXPECT_TRUE(BitEqual(linear.bias()->main_grad, db));
    }
  });
  if (config().parallel.sequence_parallel && config().parallel.tp > 1) {
    EXPECT_LE(Deviation(bias_terms, db), 1e-14);
  }
}

TEST_P(RowParallelLinearTest, ABiasAddedOnEveryRankCountsTpTimes) {
  Policies everyone;
  everyone.bias_before_reduction = [](const std::string&, int) { return true; };
  const int tp = config().parallel.tp;
  Tensor expected = RunForward(config());
  Tensor surplus = Whole("fc.bias", {kOut});
  ScaleInto(Context{}, surplus, tp - 1);
  EXPECT_LE(Deviation(RunForward(config(), everyone), AddBias(Context{}, expected, surplus)),
            1e-14);

  Policies first_alone;
  first_alone.bias_before_reduction = [](const std::string&, int tp_rank) { return tp_rank == 0; };
  EXPECT_LE(Deviation(RunForward(config(), first_alone), expected), 1e-14);
}

INSTANTIATE_TEST_SUITE_P(Layouts, RowParallelLinearTest,
                         testing::Combine(testing::Values(1, 2, 4, 8), testing::Bool()),
                         [](const auto& info) {
                           return LayoutName(TensorParallelConfig(std::get<0>(info.param),
                                                                  std::get<1>(info.param)));
                         });

}  // namespace
}  // namespace plumbline
