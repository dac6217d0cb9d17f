#include "parallel/tensor/vocab_parallel_cross_entropy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "base/compare.h"
#include "parallel/tensor/parameter.h"
#include "parallel/tensor/tap.h"
#include "tests/parallel/tensor/module_world.h"

namespace plumbline {
namespace {

constexpr int64_t kSequence = 4;
constexpr int64_t kBatch = 2;
constexpr int64_t kTokens = kSequence * kBatch;

struct Case {
  int tp;
  int64_t classes;        // columns of the logits
  int64_t valid_classes;  // those that take part
  double label_smoothing;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << "tp" << c.tp << " " << c.valid_classes << "/" << c.classes << " s" << c.label_smoothing;
}

Tensor Targets(int64_t classes) {
  std::vector<int64_t> targets;
  for (int64_t i = 0; i < kTokens; ++i) targets.push_back((i * 5 + 1) % classes);
  return Tensor::FromVector<int64_t>(Context{}, {kTokens}, targets);
}

struct WholeResult {
  Tensor loss;
  Tensor dlogits;
};

class VocabParallelCrossEntropyTest : public testing::TestWithParam<Case> {
 protected:
  // All ranks' losses must be bit-equal; the gradient is put together.
  WholeResult RunAt(int tp) const {
    const Case& c = GetParam();
    const Shape shape = {kSequence, kBatch, c.classes};
    Tensor logits = Numbers(shape, 3);
    // Large, so that a missing maximum overflows.
    for (int64_t i = 0; i < logits.elements(); ++i)
      logits.data<double>()[i] = 800 + 3 * logits.data<double>()[i];
    const Tensor dloss = Numbers({kTokens}, 4);
    const Tensor targets = Targets(c.valid_classes);
    WholeResult result = {{}, ZeroTensor(shape)};
    OnEachRank(TensorParallelConfig(tp, false), [&](const RankEnv& env) {
      const LocalPiece piece = MakeLayout(env, {"logits", shape, {PaddedBlockCut()(2)}}).piece;
      const VocabParallelCrossEntropy loss(env, {.logits_name = "output_layer",
                                                 .loss_name = "loss",
                                                 .classes_per_rank = piece.local_shape[2],
                                                 .valid_classes = c.valid_classes,
                                                 .label_smoothing = c.label_smoothing});
      VocabParallelCrossEntropy::Saved saved;
      const Tensor losses =
          loss.Forward(ForwardPass(), PieceOfWhole(logits, piece), targets, saved);
      if (!result.loss.defined()) result.loss = losses.Clone(Context{});
      EXPECT_TRUE(BitEqual(losses, result.loss));
      const Tensor dlogits = loss.Backward(dloss, targets, saved);
      PutPiece(dlogits, piece, result.dlogits);
    });
    return result;
  }
};

TEST_P(VocabParallelCrossEntropyTest, EqualsTheUnshardedLoss) {
  const WholeResult one = RunAt(1);
  const WholeResult many = RunAt(GetParam().tp);
  EXPECT_LE(Deviation(many.loss, one.loss), 1e-14);
  EXPECT_LE(Deviation(many.dlogits, one.dlogits), 1e-13);
  for (double loss : many.loss.ToVector<double>()) EXPECT_TRUE(std::isfinite(loss));
}

TEST_P(VocabParallelCrossEntropyTest, AGradientSumsToZeroOverTheValidClasses) {
  const Case& c = GetParam();
  const std::vector<double> dlogits = RunAt(c.tp).dlogits.ToVector<double>();
  for (int64_t t = 0; t < kTokens; ++t) {
    double sum = 0;
    double largest = 0;
    for (int64_t j = 0; j < c.classes; ++j) {
      const double value = dlogits[t * c.classes + j];
      if (j >= c.valid_classes) {
        EXPECT_EQ(value, 0);
      }
      sum += value;
      largest = std::max(largest, std::abs(value));
    }
    EXPECT_LE(std::abs(sum), 1e-13 * largest);
  }
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (int tp : {1, 2, 4, 8}) {
    for (double s : {0.0, 0.2}) {
      cases.push_back({tp, 16, 16, s});
      cases.push_back({tp, 19, 19, s});  // tp doesn't divide
      cases.push_back({tp, 32, 19, s});  // Ranks with padding alone.
      cases.push_back({tp, 5, 5, s});    // Ranks without any class.
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Cases, VocabParallelCrossEntropyTest, testing::ValuesIn(Cases()),
                         [](const auto& info) {
                           const Case& c = info.param;
                           return "tp" + std::to_string(c.tp) + "classes" +
                                  std::to_string(c.valid_classes) + "of" +
                                  std::to_string(c.classes) +
                                  (c.label_smoothing > 0 ? "smoothed" : "");
                         });

TEST(VocabParallelCrossEntropy, IsMinusTheLogProbabilityOfTheTarget) {
  OnEachRank(TensorParallelConfig(1, false), [](const RankEnv& env) {
    const VocabParallelCrossEntropy loss(
        env, {.logits_name = "o", .loss_name = "l", .classes_per_rank = 3, .valid_classes = 3});
    VocabParallelCrossEntropy::Saved saved;
    const Tensor logits = Tensor::FromVector<double>(Context{}, {1, 1, 3}, {1, 2, 4});
    const Tensor targets = Tensor::FromVector<int64_t>(Context{}, {1}, {1});
    const double expected = std::log(std::exp(1) + std::exp(2) + std::exp(4)) - 2;
    EXPECT_NEAR(loss.Forward(ForwardPass(), logits, targets, saved).at<double>({0}), expected,
                1e-15);
  });
}

}  // namespace
}  // namespace plumbline
