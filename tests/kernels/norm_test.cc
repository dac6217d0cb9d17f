#include "kernels/norm.h"

#include <cmath>
#include <vector>

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

constexpr double kEpsilon = 1e-3;

// What the reference can get wrong on purpose, to show that the bounds notice.
struct Variant {
  bool centred = true;
  double epsilon = kEpsilon;
  bool unbiased = false;
};

struct Reference {
  std::vector<Wide> y, mean, rstd;
};

template <class T>
Reference Norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Variant& variant) {
  const int64_t h = x.dim(-1), rows = h == 0 ? 0 : x.elements() / h;
  const std::vector<Wide> in = WideValues<T>(x), w = WideValues<T>(weight);
  const std::vector<Wide> b = bias.defined() ? WideValues<T>(bias) : std::vector<Wide>(h, 0);
  Reference r;
  for (int64_t row = 0; row < rows; ++row) {
    Wide mean = 0, square = 0;
    for (int64_t i = 0; i < h; ++i) mean += variant.centred ? in[row * h + i] / h : 0;
    for (int64_t i = 0; i < h; ++i) {
      const Wide d = in[row * h + i] - mean;
      square += d * d / (variant.unbiased ? h - 1 : h);
    }
    const Wide rstd = 1 / std::sqrt(square + static_cast<Wide>(variant.epsilon));
    r.mean.push_back(mean);
    r.rstd.push_back(rstd);
    for (int64_t i = 0; i < h; ++i) r.y.push_back((in[row * h + i] - mean) * rstd * w[i] + b[i]);
  }
  return r;
}

template <class T>
class NormTest : public ::testing::Test {};
TYPED_TEST_SUITE(NormTest, testing::ScalarTypes, testing::ScalarNames);

const std::vector<Shape> kShapes = {{1, 1}, {1, 8}, {3, 2, 7}, {8, 16}, {17, 33}, {0, 5}, {4, 257}};

TYPED_TEST(NormTest, LayerNormIsTheFormula) {
  using T = TypeParam;
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(ToString(shape));
    const int64_t h = shape.back();
    const Tensor x = Random<T>(shape, "x"), w = Random<T>({h}, "w"), b = Random<T>({h}, "b");
    const NormForwardResult result = LayerNormForward(kContext, x, w, b, kEpsilon);
    const Reference r = Norm<T>(x, w, b, {});
    EXPECT_LE(DeviationFrom<T>(result.y, r.y), Bound<T>(h + 8));
    EXPECT_LE(DeviationFrom<T>(result.rstd, r.rstd), Bound<T>(h + 8));
    // The mean cancels: its error is relative to the values, which are of order 1.
    for (int64_t row = 0; row < result.mean.elements(); ++row) {
      EXPECT_LE(std::abs(result.mean.data<T>()[row] - r.mean[row]), 4 * Bound<T>(h));
    }
    const NormForwardResult scattered =
        LayerNormForward(kContext, Scattered<T>(x), Scattered<T>(w), Scattered<T>(b), kEpsilon);
    EXPECT_THAT(scattered.y, BitEquals(result.y));
    if (x.elements() == 0 || h < 7) continue;
    EXPECT_GT(DeviationFrom<T>(result.y, Norm<T>(x, w, b, {.centred = false}).y), Bound<T>(h + 8));
    EXPECT_GT(DeviationFrom<T>(result.y, Norm<T>(x, w, b, {.epsilon = 1.3e-3}).y), Bound<T>(h + 8));
    EXPECT_GT(DeviationFrom<T>(result.y, Norm<T>(x, w, b, {.unbiased = true}).y), Bound<T>(h + 8));
  }
}

TYPED_TEST(NormTest, RmsNormIsTheFormula) {
  using T = TypeParam;
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(ToString(shape));
    const int64_t h = shape.back();
    const Tensor x = Random<T>(shape, "x"), w = Random<T>({h}, "w");
    const NormForwardResult result = RmsNormForward(kContext, x, w, kEpsilon);
    const Reference r = Norm<T>(x, w, Tensor(), {.centred = false});
    EXPECT_FALSE(result.mean.defined());
    EXPECT_LE(DeviationFrom<T>(result.y, r.y), Bound<T>(h + 8));
    EXPECT_LE(DeviationFrom<T>(result.rstd, r.rstd), Bound<T>(h + 8));
    EXPECT_THAT(RmsNormForward(kContext, Scattered<T>(x), Scattered<T>(w), kEpsilon).y,
                BitEquals(result.y));
    if (x.elements() == 0 || h < 7) continue;
    EXPECT_GT(DeviationFrom<T>(result.y, Norm<T>(x, w, Tensor(), {}).y), Bound<T>(h + 8));
  }
}

// Rows of a result computed from some rows of the inputs are those rows of the whole.
TYPED_TEST(NormTest, ARowDoesNotDependOnTheOthers) {
  using T = TypeParam;
  const Tensor x = Random<T>({19, 24}, "x"), dy = Random<T>({19, 24}, "dy");
  const Tensor w = Random<T>({24}, "w"), b = Random<T>({24}, "b");
  const NormForwardResult layer = LayerNormForward(kContext, x, w, b, kEpsilon);
  const NormForwardResult rms = RmsNormForward(kContext, x, w, kEpsilon);
  const Tensor layer_dx = LayerNormBackward(kContext, dy, x, w, layer.mean, layer.rstd).dx;
  const Tensor rms_dx = RmsNormBackward(kContext, dy, x, w, rms.rstd).dx;
  const auto rows = [](const Tensor& t, int64_t begin, int64_t end) {
    return t.Slice(0, begin, end).Clone(kContext);
  };
  for (const auto& [begin, end] :
       std::vector<std::pair<int64_t, int64_t>>{{0, 1}, {3, 10}, {8, 19}}) {
    const Tensor part = x.Slice(0, begin, end), dpart = dy.Slice(0, begin, end);
    const NormForwardResult one = LayerNormForward(kContext, part, w, b, kEpsilon);
    EXPECT_THAT(one.y, BitEquals(rows(layer.y, begin, end)));
    EXPECT_THAT(one.rstd, BitEquals(rows(layer.rstd, begin, end)));
    EXPECT_THAT(LayerNormBackward(kContext, dpart, part, w, one.mean, one.rstd).dx,
                BitEquals(rows(layer_dx, begin, end)));
    const NormForwardResult two = RmsNormForward(kContext, part, w, kEpsilon);
    EXPECT_THAT(two.y, BitEquals(rows(rms.y, begin, end)));
    EXPECT_THAT(RmsNormBackward(kContext, dpart, part, w, two.rstd).dx,
                BitEquals(rows(rms_dx, begin, end)));
  }
}

TYPED_TEST(NormTest, NanStaysInItsRow) {
  using T = TypeParam;
  const Tensor x = testing::WithNan<T>(Random<T>({12, 3}, "x"), 13);
  const Tensor w = Random<T>({3}, "w"), b = Random<T>({3}, "b");
  const std::vector<int64_t> row = {12, 13, 14};
  EXPECT_EQ(testing::NanElements<T>(LayerNormForward(kContext, x, w, b, kEpsilon).y), row);
  EXPECT_EQ(testing::NanElements<T>(RmsNormForward(kContext, x, w, kEpsilon).y), row);
}

// The gradients against differences of the forward, which the tests above hold to the formula.
TEST(NormGradientTest, LayerNormMatchesFiniteDifferences) {
  const Tensor x = Random<double>({5, 7}, "x"), dy = Random<double>({5, 7}, "dy");
  const Tensor w = Random<double>({7}, "w"), b = Random<double>({7}, "b");
  const NormForwardResult f = LayerNormForward(kContext, x, w, b, kEpsilon);
  const NormBackwardResult result =
      LayerNormBackward(kContext, Scattered<double>(dy), Scattered<double>(x), w, f.mean, f.rstd);
  const auto loss = [&](const Tensor& xx, const Tensor& ww, const Tensor& bb) {
    return testing::Inner(LayerNormForward(kContext, xx, ww, bb, kEpsilon).y, dy);
  };
  const std::vector<Wide> dx =
      testing::FiniteDifferences([&](const Tensor& t) { return loss(t, w, b); }, x);
  EXPECT_LE(DeviationFrom<double>(result.dx, dx), testing::kDifferenceBound);
  EXPECT_LE(
      DeviationFrom<double>(result.dweight, testing::FiniteDifferences(
                                                [&](const Tensor& t) { return loss(x, t, b); }, w)),
      testing::kDifferenceBound);
  EXPECT_LE(
      DeviationFrom<double>(result.dbias, testing::FiniteDifferences(
                                              [&](const Tensor& t) { return loss(x, w, t); }, b)),
      testing::kDifferenceBound);
  // RMSNorm's gradient, which lacks the term of the mean, is outside.
  EXPECT_GT(DeviationFrom<double>(RmsNormBackward(kContext, dy, x, w, f.rstd).dx, dx), 1e-2);
}

TEST(NormGradientTest, RmsNormMatchesFiniteDifferences) {
  const Tensor x = Random<double>({5, 7}, "x"), dy = Random<double>({5, 7}, "dy");
  const Tensor w = Random<double>({7}, "w");
  const Tensor rstd = RmsNormForward(kContext, x, w, kEpsilon).rstd;
  const NormBackwardResult result = RmsNormBackward(kContext, dy, x, w, rstd);
  const auto loss = [&](const Tensor& xx, const Tensor& ww) {
    return testing::Inner(RmsNormForward(kContext, xx, ww, kEpsilon).y, dy);
  };
  EXPECT_FALSE(result.dbias.defined());
  EXPECT_LE(DeviationFrom<double>(result.dx, testing::FiniteDifferences(
                                                 [&](const Tensor& t) { return loss(t, w); }, x)),
            testing::kDifferenceBound);
  EXPECT_LE(
      DeviationFrom<double>(result.dweight, testing::FiniteDifferences(
                                                [&](const Tensor& t) { return loss(x, t); }, w)),
      testing::kDifferenceBound);
}

TEST(NormDTypeTest, SinglePrecisionIsNearDouble) {
  const auto run = [](auto zero) {
    using T = decltype(zero);
    const Tensor x = Random<T>({9, 40}, "x"), dy = Random<T>({9, 40}, "dy");
    const Tensor w = Random<T>({40}, "w"), b = Random<T>({40}, "b");
    const NormForwardResult f = LayerNormForward(kContext, x, w, b, kEpsilon);
    return LayerNormBackward(kContext, dy, x, w, f.mean, f.rstd).dx;
  };
  const Difference difference = Compare(run(float()), run(double()));
  EXPECT_TRUE(difference.Within(Bound<float>(48)));
  EXPECT_FALSE(difference.Within(Bound<double>(48)));
}

TEST(NormErrorsTest, ShapesAndDTypesMustAgree) {
  const Tensor x = Random<double>({4, 6}, "x"), w = Random<double>({6}, "w");
  EXPECT_THROW(RmsNormForward(kContext, x, Random<double>({5}, "w"), 0), InvalidArgument);
  EXPECT_THROW(RmsNormForward(kContext, x, Random<float>({6}, "w"), 0), InvalidArgument);
  EXPECT_THROW(LayerNormForward(kContext, x, w, Random<double>({5}, "b"), 0), InvalidArgument);
  EXPECT_THROW(
      RmsNormBackward(kContext, Random<double>({4, 5}, "dy"), x, w, Random<double>({4}, "r")),
      InvalidArgument);
  EXPECT_THROW(RmsNormBackward(kContext, x, x, w, Random<double>({5}, "r")), InvalidArgument);
}

}  // namespace
}  // namespace plumbline
