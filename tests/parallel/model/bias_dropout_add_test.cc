#include "parallel/model/bias_dropout_add.h"

#include <gtest/gtest.h>

#include "base/compare.h"
#include "kernels/elementwise.h"
#include "tests/parallel/tensor/module_world.h"

namespace plumbline {
namespace {

TEST(BiasDropoutAdd, AddsBiasAndResidual) {
  const RunConfig config = TensorParallelConfig(1, false);
  const int64_t hidden = config.model.hidden_size;
  OnEachRank(config, [&](const RankEnv& env) {
    const BiasDropoutAdd bda(env, ActivationLayouts(env, QkvLayout(env)), 0, "bda", "linear");
    const Context& context = env.context();
    const Tensor y = Numbers({8, 2, hidden}, 1);
    const Tensor residual = Numbers({8, 2, hidden}, 2);
    const Tensor bias = Numbers({hidden}, 3);
    EXPECT_TRUE(BitEqual(bda.Forward(ForwardPass(), {y, bias}, residual),
                         Add(context, residual, AddBias(context, y, bias))));
    EXPECT_TRUE(BitEqual(bda.Forward(ForwardPass(), {y, {}}, residual), Add(context, residual, y)));
  });
}

TEST(BiasDropoutAdd, DropsTheBiasToo) {
  RunConfig config = TensorParallelConfig(2, true);
  config.model.hidden_dropout = 0.5;
  const int64_t hidden = config.model.hidden_size;
  Microbatch microbatch;
  microbatch.batch.samples = {0, 1};
  OnEachRank(config, [&](const RankEnv& env) {
    const BiasDropoutAdd bda(env, ActivationLayouts(env, QkvLayout(env)), 0, "bda", "linear");
    const Pass pass{.data = &microbatch};
    const Tensor zero = ZeroTensor({4, 2, hidden});
    Tensor bias = ZeroTensor({hidden});
    for (int64_t i = 0; i < hidden; ++i) bias.data<double>()[i] = 1;
    const Tensor out = bda.Forward(pass, {zero, bias}, zero);
    int64_t kept = 0;
    for (double value : out.ToVector<double>()) {
      EXPECT_TRUE(value == 0 || value == 2);
      kept += value == 2 ? 1 : 0;
    }
    EXPECT_GT(kept, 0);
    EXPECT_LT(kept, out.elements());
    // The backward drops the same elements.
    Tensor ones = ZeroTensor({4, 2, hidden});
    for (int64_t i = 0; i < ones.elements(); ++i) ones.data<double>()[i] = 1;
    EXPECT_TRUE(
        BitEqual(bda.Backward({.phase = Phase::kBackward, .data = &microbatch}, ones), out));
  });
}

}  // namespace
}  // namespace plumbline
