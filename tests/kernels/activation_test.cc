#include "kernels/activation.h"

#include <cmath>
#include <numbers>
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

constexpr Activation kAll[] = {Activation::kGeluTanh, Activation::kGeluErf,
                               Activation::kSquaredRelu, Activation::kSwiglu};

// Value of one element; SwiGLU multiplies by the other half.
Wide Value(Activation kind, Wide x, Wide up) {
  constexpr Wide kPi = std::numbers::pi_v<Wide>;
  switch (kind) {
    case Activation::kGeluTanh:
      return x / 2 * (1 + std::tanh(std::sqrt(2 / kPi) * (x + 0.044715L * x * x * x)));
    case Activation::kGeluErf:
      return x * (1 + std::erf(x / std::sqrt(Wide{2}))) / 2;
    case Activation::kSquaredRelu:
      return x > 0 ? x * x : 0;
    case Activation::kSwiglu:
      return x / (1 + std::exp(-x)) * up;
  }
  return 0;
}

std::vector<Wide> Reference(Activation kind, const std::vector<Wide>& x, int64_t columns) {
  std::vector<Wide> y;
  if (kind != Activation::kSwiglu) {
    for (Wide value : x) y.push_back(Value(kind, value, 0));
    return y;
  }
  const int64_t half = columns / 2;
  for (size_t row = 0; row < x.size(); row += static_cast<size_t>(columns)) {
    for (int64_t i = 0; i < half; ++i) y.push_back(Value(kind, x[row + i], x[row + half + i]));
  }
  return y;
}

template <class T>
class ActivationTest : public ::testing::Test {};
TYPED_TEST_SUITE(ActivationTest, testing::ScalarTypes, testing::ScalarNames);

TYPED_TEST(ActivationTest, IsTheFormulaAndOfTheFourNoOther) {
  using T = TypeParam;
  for (const Shape& shape : std::vector<Shape>{{2}, {1, 2}, {3, 5, 8}, {0, 4}, {33, 34}}) {
    const Tensor x = Random<T>(shape, "x");
    for (Activation kind : kAll) {
      SCOPED_TRACE(fmt::format("{} {}", static_cast<int>(kind), ToString(shape)));
      const Tensor y = ActivationForward(kContext, kind, x);
      EXPECT_THAT(ActivationForward(kContext, kind, Scattered<T>(x)), BitEquals(y));
      for (Activation other : kAll) {
        const double deviation =
            DeviationFrom<T>(y, Reference(other, WideValues<T>(x), shape.back()));
        if (kind == other) {
          EXPECT_LE(deviation, Bound<T>(8));
        } else if (x.elements() > 2) {
          // The two GELUs are the closest pair, about 5e-4 apart.
          EXPECT_GT(deviation, 1e-4);
        }
      }
    }
  }
}

TYPED_TEST(ActivationTest, ARowDoesNotDependOnTheOthers) {
  using T = TypeParam;
  const Tensor x = Random<T>({9, 14}, "x");
  for (Activation kind : kAll) {
    const Tensor y = ActivationForward(kContext, kind, x);
    const Tensor dx = ActivationBackward(kContext, kind, y, x);
    const Tensor part = ActivationForward(kContext, kind, x.Slice(0, 2, 5));
    EXPECT_THAT(part, BitEquals(y.Slice(0, 2, 5).Clone(kContext)));
    EXPECT_THAT(ActivationBackward(kContext, kind, part, x.Slice(0, 2, 5)),
                BitEquals(dx.Slice(0, 2, 5).Clone(kContext)));
  }
}

TYPED_TEST(ActivationTest, NanReachesWhatItFeedsOnly) {
  using T = TypeParam;
  const Tensor x = testing::WithNan<T>(Random<T>({3, 4}, "x"), 6);
  for (Activation kind : kAll) {
    // Element 6 is the first of the second row's upper half.
    const int64_t place = kind == Activation::kSwiglu ? 2 : 6;
    EXPECT_EQ(testing::NanElements<T>(ActivationForward(kContext, kind, x)),
              std::vector<int64_t>{place})
        << static_cast<int>(kind);
  }
}

TEST(ActivationGradientTest, MatchesFiniteDifferences) {
  const Tensor x = Random<double>({5, 12}, "x");
  for (Activation kind : kAll) {
    SCOPED_TRACE(static_cast<int>(kind));
    const Tensor dy = Random<double>(ActivationForward(kContext, kind, x).shape(), "dy");
    const std::vector<Wide> expected = testing::FiniteDifferences(
        [&](const Tensor& t) { return testing::Inner(ActivationForward(kContext, kind, t), dy); },
        x);
    const Tensor dx =
        ActivationBackward(kContext, kind, Scattered<double>(dy), Scattered<double>(x));
    EXPECT_LE(DeviationFrom<double>(dx, expected), testing::kDifferenceBound);
    for (Activation other : kAll) {
      if (other == kind || other == Activation::kSwiglu || kind == Activation::kSwiglu) continue;
      EXPECT_GT(DeviationFrom<double>(ActivationBackward(kContext, other, dy, x), expected), 1e-4);
    }
  }
}

TEST(ActivationErrorsTest, ShapesAndDTypesMustAgree) {
  const Tensor x = Random<double>({2, 3}, "x");
  EXPECT_THROW(ActivationForward(kContext, Activation::kSwiglu, x), InvalidArgument);
  EXPECT_THROW(ActivationBackward(kContext, Activation::kGeluErf, Random<double>({3, 2}, "dy"), x),
               InvalidArgument);
  EXPECT_THROW(ActivationBackward(kContext, Activation::kSwiglu, Random<double>({2, 4}, "dy"),
                                  Random<double>({2, 4}, "x")),
               InvalidArgument);
  EXPECT_THROW(ActivationBackward(kContext, Activation::kGeluErf, Random<float>({2, 3}, "dy"), x),
               InvalidArgument);
}

}  // namespace
}  // namespace plumbline
