#include "kernels/cross_entropy.h"

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/reduce.h"
#include "tests/kernels/operator_test_util.h"

namespace plumbline {
namespace {

using testing::BitEquals;
using testing::Bound;
using testing::DeviationFrom;
using testing::kContext;
using testing::Random;
using testing::Scattered;
using testing::Wide;
using testing::WideValues;

constexpr int64_t kTokens = 11;  // more than one group of rows
constexpr int64_t kClasses = 10;
constexpr int64_t kPadded = 12;

Tensor Targets() {
  return Tensor::FromVector<int64_t>(kContext, {kTokens}, {0, 9, 3, 4, 5, 3, 8, 1, 7, 2, 6});
}

// Logits with a wide spread, and with padding that must not be read.
template <class T>
Tensor Logits() {
  Tensor logits = Random<T>({kTokens, kPadded}, "logits");
  for (int64_t i = 0; i < logits.elements(); ++i) logits.data<T>()[i] *= T(5);
  for (int64_t row = 0; row < kTokens; ++row) {
    for (int64_t j = kClasses; j < kPadded; ++j) {
      logits.at<T>({row, j}) = std::numeric_limits<T>::quiet_NaN();
    }
  }
  return logits;
}

struct Reference {
  std::vector<Wide> loss, dlogits;
};

// `target_weight_over_all` spreads the smoothing over all classes, as some frameworks do.
template <class T>
Reference CrossEntropy(const std::vector<Wide>& dloss, Wide smoothing,
                       bool target_weight_over_all = false) {
  const Tensor logits = Logits<T>();
  Reference r;
  for (int64_t row = 0; row < kTokens; ++row) {
    const int64_t y = Targets().at<int64_t>({row});
    Wide max = -1e9L, z = 0, loss = 0;
    for (int64_t j = 0; j < kClasses; ++j) max = std::max<Wide>(max, logits.at<T>({row, j}));
    for (int64_t j = 0; j < kClasses; ++j) z += std::exp(logits.at<T>({row, j}) - max);
    for (int64_t j = 0; j < kPadded; ++j) {
      if (j >= kClasses) {
        r.dlogits.push_back(0);
        continue;
      }
      const Wide log_p = logits.at<T>({row, j}) - max - std::log(z);
      Wide weight = j == y ? 1 - smoothing : smoothing / (kClasses - 1);
      if (target_weight_over_all) weight = smoothing / kClasses + (j == y ? 1 - smoothing : 0);
      loss -= weight * log_p;
      r.dlogits.push_back((std::exp(log_p) - weight) * dloss[static_cast<size_t>(row)]);
    }
    r.loss.push_back(loss);
  }
  return r;
}

// Partition of the padded classes over shards.
using Shards = std::vector<std::pair<int64_t, int64_t>>;
const std::vector<Shards> kPartitions = {
    {{0, 12}}, {{0, 6}, {6, 12}}, {{0, 4}, {4, 8}, {8, 12}}, {{0, 5}, {5, 11}, {11, 12}}};

struct Result {
  Tensor loss;
  std::vector<Tensor> dlogits;
};

template <class F>
Tensor Reduced(ReduceOp op, const Shards& shards, F piece) {
  std::vector<Tensor> pieces;
  std::vector<const Tensor*> pointers;
  for (const auto& [begin, end] : shards) pieces.push_back(piece(begin, end));
  for (const Tensor& tensor : pieces) pointers.push_back(&tensor);
  Tensor result = Tensor::Empty(kContext, pieces[0].dtype(), pieces[0].shape());
  Reduce(op, pointers, result);
  return result;
}

// As the vocabulary-parallel layer does it, with the reductions in between.
Result RunSharded(const Tensor& logits, const Shards& shards, double smoothing,
                  const Tensor& dloss) {
  const auto range = [](int64_t begin) { return ClassRange{begin, kClasses}; };
  const auto local = [&](int64_t begin, int64_t end) { return logits.Slice(1, begin, end); };
  CrossEntropyTotals totals;
  totals.max = Reduced(ReduceOp::kMax, shards, [&](int64_t begin, int64_t end) {
    return RowMaxScore(kContext, local(begin, end), range(begin));
  });
  totals.sum_exp = Reduced(ReduceOp::kSum, shards, [&](int64_t begin, int64_t end) {
    return RowSumExp(kContext, local(begin, end), totals.max, range(begin));
  });
  totals.target = Reduced(ReduceOp::kSum, shards, [&](int64_t begin, int64_t end) {
    return RowTargetLogit(kContext, local(begin, end), Targets(), range(begin));
  });
  if (smoothing != 0) {
    totals.logit_sum = Reduced(ReduceOp::kSum, shards, [&](int64_t begin, int64_t end) {
      return RowSum(kContext, local(begin, end), range(begin));
    });
  }
  Result result;
  result.loss = CrossEntropyLoss(kContext, totals, kClasses, smoothing);
  for (const auto& [begin, end] : shards) {
    result.dlogits.push_back(CrossEntropyBackward(kContext, dloss, local(begin, end), Targets(),
                                                  totals, range(begin), smoothing));
  }
  return result;
}

Tensor Joined(const std::vector<Tensor>& shards) {
  Tensor whole = Tensor::Empty(kContext, shards[0].dtype(), {kTokens, kPadded});
  int64_t column = 0;
  for (const Tensor& shard : shards) {
    Tensor place = whole.Slice(1, column, column + shard.dim(1));
    place.CopyFrom(shard);
    column += shard.dim(1);
  }
  return whole;
}

template <class T>
class CrossEntropyTest : public ::testing::Test {};
TYPED_TEST_SUITE(CrossEntropyTest, testing::ScalarTypes, testing::ScalarNames);

TYPED_TEST(CrossEntropyTest, ShardedAndWholeAreTheFormulaWithAndWithoutSmoothing) {
  using T = TypeParam;
  const Tensor dloss = Random<T>({kTokens}, "dloss");
  for (double smoothing : {0.0, 0.1, 1.0}) {
    const Reference expected = CrossEntropy<T>(WideValues<T>(dloss), static_cast<T>(smoothing));
    for (const Shards& shards : kPartitions) {
      SCOPED_TRACE(fmt::format("smoothing {} shards {}", smoothing, shards.size()));
      const Result result = RunSharded(Logits<T>(), shards, smoothing, dloss);
      EXPECT_LE(DeviationFrom<T>(result.loss, expected.loss), Bound<T>(kClasses));
      // exp amplifies the rounding of a logit of order 20 in its argument.
      EXPECT_LE(DeviationFrom<T>(Joined(result.dlogits), expected.dlogits),
                Bound<T>(kClasses + 20));
      if (smoothing == 0) continue;
      const Reference wrong =
          CrossEntropy<T>(WideValues<T>(dloss), static_cast<T>(smoothing), true);
      EXPECT_GT(DeviationFrom<T>(result.loss, wrong.loss), 1e-3);
      EXPECT_GT(DeviationFrom<T>(Joined(result.dlogits), wrong.dlogits), 1e-3);
    }
  }
}

TYPED_TEST(CrossEntropyTest, PiecesAreTheirDefinitions) {
  using T = TypeParam;
  const Tensor logits = Logits<T>();
  for (const auto& [begin, end] : Shards{{0, 12}, {4, 8}, {8, 12}, {11, 12}, {3, 3}}) {
    SCOPED_TRACE(fmt::format("[{}, {})", begin, end));
    const Tensor local = logits.Slice(1, begin, end);
    const ClassRange range = {begin, kClasses};
    const Tensor max = RowMaxScore(kContext, local, range);
    const Tensor shift = Tensor::Zeros(kContext, kDTypeOf<T>, {kTokens});
    const Tensor sum_exp = RowSumExp(kContext, local, shift, range);
    const Tensor target = RowTargetLogit(kContext, local, Targets(), range);
    const Tensor sum = RowSum(kContext, local, range);
    for (int64_t row = 0; row < kTokens; ++row) {
      T largest = -std::numeric_limits<T>::infinity(), exps = 0, logit = 0, total = 0;
      for (int64_t j = begin; j < std::min(end, kClasses); ++j) {
        const T x = logits.at<T>({row, j});
        largest = std::max(largest, x);
        exps += std::exp(x);
        total += x;
        if (Targets().at<int64_t>({row}) == j) logit = x;
      }
      EXPECT_EQ(max.at<T>({row}), largest);
      EXPECT_EQ(sum_exp.at<T>({row}), exps);
      EXPECT_EQ(target.at<T>({row}), logit);
      EXPECT_EQ(sum.at<T>({row}), total);
    }
    const Tensor scattered = Scattered<T>(local);
    EXPECT_THAT(RowMaxScore(kContext, scattered, range), BitEquals(max));
    EXPECT_THAT(RowSumExp(kContext, scattered, Scattered<T>(shift), range), BitEquals(sum_exp));
    EXPECT_THAT(RowTargetLogit(kContext, scattered, Scattered<int64_t>(Targets()), range),
                BitEquals(target));
    EXPECT_THAT(RowSum(kContext, scattered, range), BitEquals(sum));
  }
}

TYPED_TEST(CrossEntropyTest, ARowDoesNotDependOnTheOthers) {
  using T = TypeParam;
  const Tensor logits = Logits<T>(), part = logits.Slice(0, 2, 7),
               targets = Targets().Slice(0, 2, 7);
  const ClassRange range = {0, kClasses};
  const auto totals = [&](const Tensor& x, const Tensor& y) {
    CrossEntropyTotals t;
    t.max = RowMaxScore(kContext, x, range);
    t.sum_exp = RowSumExp(kContext, x, t.max, range);
    t.target = RowTargetLogit(kContext, x, y, range);
    t.logit_sum = RowSum(kContext, x, range);
    return t;
  };
  const CrossEntropyTotals whole = totals(logits, Targets()), some = totals(part, targets);
  const Tensor loss = CrossEntropyLoss(kContext, whole, kClasses, 0.1);
  EXPECT_THAT(CrossEntropyLoss(kContext, some, kClasses, 0.1),
              BitEquals(loss.Slice(0, 2, 7).Clone(kContext)));
  const Tensor dloss = Random<T>({kTokens}, "dloss");
  const Tensor gradient =
      CrossEntropyBackward(kContext, dloss, logits, Targets(), whole, range, 0.1);
  EXPECT_THAT(CrossEntropyBackward(kContext, dloss.Slice(0, 2, 7), part, targets, some, range, 0.1),
              BitEquals(gradient.Slice(0, 2, 7).Clone(kContext)));
}

TYPED_TEST(CrossEntropyTest, LargeLogitsDoNotOverflowAndNanStaysInItsRow) {
  using T = TypeParam;
  const ClassRange range = {0, 2};
  const Tensor logits = Tensor::FromVector<T>(
      kContext, {3, 2}, {T(1e30), T(-1e30), T(700), std::numeric_limits<T>::quiet_NaN(), 0, 0});
  const Tensor targets = Tensor::FromVector<int64_t>(kContext, {3}, {0, 0, 1});
  CrossEntropyTotals totals;
  totals.max = RowMaxScore(kContext, logits, range);
  totals.sum_exp = RowSumExp(kContext, logits, totals.max, range);
  totals.target = RowTargetLogit(kContext, logits, targets, range);
  const Tensor loss = CrossEntropyLoss(kContext, totals, 2, 0);
  EXPECT_EQ(loss.at<T>({0}), T(0));
  EXPECT_EQ(testing::NanElements<T>(loss), std::vector<int64_t>{1});
  EXPECT_EQ(loss.at<T>({2}), std::log(T(2)));
  const Tensor dloss = Tensor::FromVector<T>(kContext, {3}, {1, 1, 1});
  EXPECT_EQ(testing::NanElements<T>(
                CrossEntropyBackward(kContext, dloss, logits, targets, totals, range, 0)),
            (std::vector<int64_t>{2, 3}));
}

TYPED_TEST(CrossEntropyTest, NoTokensGiveNoLosses) {
  using T = TypeParam;
  const Tensor none = Logits<T>().Slice(0, 0, 0);
  const ClassRange range = {0, kClasses};
  CrossEntropyTotals totals;
  totals.max = RowMaxScore(kContext, none, range);
  totals.sum_exp = RowSumExp(kContext, none, totals.max, range);
  totals.target = RowTargetLogit(kContext, none, Targets().Slice(0, 0, 0), range);
  EXPECT_EQ(CrossEntropyLoss(kContext, totals, kClasses, 0).elements(), 0);
}

TEST(CrossEntropyGradientTest, MatchesFiniteDifferences) {
  Tensor logits = Random<double>({kTokens, kPadded}, "logits");
  const Tensor dloss = Random<double>({kTokens}, "dloss");
  const Shards shards = {{0, 5}, {5, 12}};
  for (double smoothing : {0.0, 0.2}) {
    const std::vector<Wide> expected = testing::FiniteDifferences(
        [&](const Tensor& t) {
          return testing::Inner(RunSharded(t, shards, smoothing, dloss).loss, dloss);
        },
        logits);
    EXPECT_LE(DeviationFrom<double>(Joined(RunSharded(logits, shards, smoothing, dloss).dlogits),
                                    expected),
              testing::kDifferenceBound);
    EXPECT_GT(
        DeviationFrom<double>(Joined(RunSharded(logits, shards, 0.1, dloss).dlogits), expected),
        1e-3);
  }
}

TEST(CrossEntropyErrorsTest, ArgumentsMustFit) {
  const Tensor logits = Random<double>({kTokens, kPadded}, "logits");
  const ClassRange range = {0, kClasses};
  EXPECT_THROW(RowMaxScore(kContext, logits.Select(0, 0), range), InvalidArgument);
  EXPECT_THROW(RowSum(kContext, logits, {-1, kClasses}), InvalidArgument);
  EXPECT_THROW(RowSumExp(kContext, logits, Random<double>({3}, "max"), range), InvalidArgument);
  EXPECT_THROW(RowTargetLogit(kContext, logits, Random<double>({kTokens}, "t"), range),
               InvalidArgument);
  CrossEntropyTotals totals = {logits.Select(1, 0), logits.Select(1, 0), logits.Select(1, 0),
                               Tensor()};
  EXPECT_THROW(CrossEntropyLoss(kContext, totals, kClasses, 0.1), InvalidArgument);
  totals.logit_sum = totals.max;
  EXPECT_THROW(CrossEntropyLoss(kContext, totals, 1, 0.1), InvalidArgument);
}

}  // namespace
}  // namespace plumbline
