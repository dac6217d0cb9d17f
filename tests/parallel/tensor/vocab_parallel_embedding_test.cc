#include "parallel/tensor/vocab_parallel_embedding.h"

#include <gtest/gtest.h>

#include <tuple>

#include "base/compare.h"
#include "kernels/embedding.h"
#include "parallel/tensor/tap.h"
#include "tests/parallel/tensor/module_world.h"

namespace plumbline {
namespace {

constexpr int64_t kSequence = 8;
constexpr int64_t kHidden = 6;
const Shape kHiddenShape = {kSequence, 2, kHidden};

Tensor Tokens(int64_t vocab) {
  std::vector<int64_t> tokens;
  for (int64_t i = 0; i < 2 * kSequence; ++i) tokens.push_back((i * 7 + 3) % vocab);
  return Tensor::FromVector<int64_t>(Context{}, {2, kSequence}, tokens);
}

// tp, sequence parallelism, vocabulary.
class VocabParallelEmbeddingTest : public testing::TestWithParam<std::tuple<int, bool, int>> {
 protected:
  RunConfig config() const {
    return TensorParallelConfig(std::get<0>(GetParam()), std::get<1>(GetParam()));
  }
  int64_t vocab() const { return std::get<2>(GetParam()); }
  Tensor Table() const {
    Tensor whole = ZeroTensor({vocab(), kHidden});
    SeededParameters(config().model, config().train.seed).FillWhole("words.weight", whole);
    return whole;
  }
};

LocalPiece HiddenPiece(const RankEnv& env, bool scattered) {
  std::vector<AxisPlacement> placements;
  if (scattered) placements = {BlockCut()(0)};
  return MakeLayout(env, {"y", kHiddenShape, placements}).piece;
}

TEST_P(VocabParallelEmbeddingTest, ForwardIsExactlyTheRowsOfTheWholeTable) {
  const Tensor tokens = Tokens(vocab());
  const Tensor y = EmbeddingForward(Context{}, tokens, Table(), 0);
  for (bool reduce_scatter : {false, true}) {
    OnEachRank(config(), [&](const RankEnv& env) {
      VocabParallelEmbedding words(env, "words", vocab(), kHidden, reduce_scatter);
      EXPECT_EQ(words.scatters(), reduce_scatter && env.sequence_parallel());
      const Tensor local = words.Forward(ForwardPass(), tokens);
      EXPECT_LE(Deviation(local, PieceOfWhole(y, HiddenPiece(env, words.scatters()))), 0);
    });
  }
}

TEST_P(VocabParallelEmbeddingTest, BackwardGivesTheRowsOfTheWholeGradient) {
  const Tensor tokens = Tokens(vocab());
  const Tensor dy = Numbers(kHiddenShape, 2);
  const Tensor dtable = EmbeddingBackward(Context{}, dy, tokens, vocab(), 0);
  for (bool reduce_scatter : {false, true}) {
    OnEachRank(config(), [&](const RankEnv& env) {
      VocabParallelEmbedding words(env, "words", vocab(), kHidden, reduce_scatter);
      const Tensor local_dy = PieceOfWhole(dy, HiddenPiece(env, words.scatters()));
      words.Backward(BackwardPass(), local_dy, tokens);
      // Padding rows get no gradient: PieceOfWhole gives 0 there.
      EXPECT_TRUE(
          BitEqual(words.weight().main_grad, PieceOfWhole(dtable, words.weight().layout.piece)));
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, VocabParallelEmbeddingTest,
                         testing::Combine(testing::Values(1, 2, 4, 8), testing::Bool(),
                                          testing::Values(16, 19, 5)),
                         [](const auto& info) {
                           return LayoutName(TensorParallelConfig(std::get<0>(info.param),
                                                                  std::get<1>(info.param))) +
                                  "vocab" + std::to_string(std::get<2>(info.param));
                         });

TEST(VocabParallelEmbedding, AMaskOffByOneShardLosesRows) {
  Policies shifted;
  shifted.first_vocab_row = [](const std::string&, int tp_rank, int64_t rows) {
    return (tp_rank + 1) * rows;
  };
  const Tensor tokens = Tokens(16);
  OnEachRank(
      TensorParallelConfig(2, false),
      [&](const RankEnv& env) {
        VocabParallelEmbedding words(env, "words", 16, kHidden, false);
        // Token 3 is in rows 0..7, which nobody takes for its own.
        const Tensor y = words.Forward(ForwardPass(), tokens);
        EXPECT_EQ(MaxAbs(y.Select(0, 0).Select(0, 0)), 0);
      },
      shifted);
}

}  // namespace
}  // namespace plumbline
