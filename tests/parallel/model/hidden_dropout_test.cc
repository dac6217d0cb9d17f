#include "parallel/model/hidden_dropout.h"

#include <gtest/gtest.h>

#include "base/compare.h"
#include "base/rng.h"
#include "kernels/dropout.h"
#include "parallel/tensor/parameter.h"
#include "parallel/tensor/tap.h"
#include "tests/parallel/tensor/module_world.h"

namespace plumbline {
namespace {

RunConfig DropoutConfig(int tp, double probability) {
  RunConfig config = TensorParallelConfig(tp, tp > 1);
  config.model.hidden_dropout = probability;
  return config;
}

Microbatch Samples(std::vector<int64_t> samples) {
  Microbatch microbatch;
  microbatch.batch.samples = std::move(samples);
  return microbatch;
}

// The whole mask, from all ranks' rows.
Tensor Mask(int tp, double probability, const Pass& pass, const char* site = "a.dropout") {
  const RunConfig config = DropoutConfig(tp, probability);
  const Shape shape = {8, 2, config.model.hidden_size};
  Tensor ones = ZeroTensor(shape);
  for (int64_t i = 0; i < ones.elements(); ++i) ones.data<double>()[i] = 1;
  Tensor mask = ZeroTensor(shape);
  OnEachRank(config, [&](const RankEnv& env) {
    std::vector<AxisPlacement> placements;
    if (env.sequence_parallel()) placements = {BlockCut()(0)};
    const LocalPiece piece = MakeLayout(env, {"x", shape, placements}).piece;
    const HiddenDropout dropout(env, site);
    const Tensor y = dropout.Forward(pass, PieceOfWhole(ones, piece));
    PutPiece(y, piece, mask);
    EXPECT_TRUE(BitEqual(y, dropout.Backward(pass, PieceOfWhole(ones, piece))));
  });
  return mask;
}

TEST(HiddenDropout, TheMaskDoesNotDependOnTheLayout) {
  const Microbatch microbatch = Samples({4, 5});
  const Tensor whole = Mask(1, 0.4, {.data = &microbatch});
  for (int tp : {2, 4, 8}) EXPECT_TRUE(BitEqual(Mask(tp, 0.4, {.data = &microbatch}), whole));
}

TEST(HiddenDropout, TheMaskIsTheOneOfGlobalPositions) {
  const Microbatch microbatch = Samples({4, 5});
  const RunConfig config = DropoutConfig(1, 0.4);
  const int64_t hidden = config.model.hidden_size;
  Tensor ones = ZeroTensor({8, 2, hidden});
  for (int64_t i = 0; i < ones.elements(); ++i) ones.data<double>()[i] = 1;
  const DropoutKey key = {.probability = 0.4,
                          .seed = config.train.seed,
                          .step = 3,
                          .site_hash = HashOfName("a.dropout"),
                          .samples = {4, 5}};
  const std::vector<int64_t> rows = {0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_TRUE(BitEqual(Mask(2, 0.4, {.step = 3, .data = &microbatch}),
                       Dropout(Context{}, ones, key, rows, 0, hidden)));
}

TEST(HiddenDropout, EveryPartOfTheKeyMatters) {
  const Microbatch microbatch = Samples({4, 5});
  const Microbatch other = Samples({4, 6});
  const Tensor mask = Mask(1, 0.4, {.data = &microbatch});
  EXPECT_FALSE(BitEqual(Mask(1, 0.4, {.step = 2, .data = &microbatch}), mask));
  EXPECT_FALSE(BitEqual(Mask(1, 0.4, {.data = &other}), mask));
  EXPECT_FALSE(BitEqual(Mask(1, 0.4, {.data = &microbatch}, "b.dropout"), mask));
  // The microbatch's number is no part of it: the samples say what is dropped.
  EXPECT_TRUE(BitEqual(Mask(1, 0.4, {.microbatch = 7, .data = &microbatch}), mask));
}

TEST(HiddenDropout, NoProbabilityIsTheIdentity) {
  const Microbatch microbatch = Samples({4, 5});
  const Tensor mask = Mask(1, 0, {.data = &microbatch});
  for (double value : mask.ToVector<double>()) EXPECT_EQ(value, 1);
}

}  // namespace
}  // namespace plumbline
