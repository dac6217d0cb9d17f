#include "kernels/rope.h"

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

struct Variant {
  bool interleaved = false;
  bool inverse = false;
  int64_t shift = 0;  // of every position
};

template <class T>
std::vector<Wide> Reference(const Tensor& x, const Tensor& positions,
                            const std::vector<double>& frequencies, const Variant& variant) {
  const int64_t pairs = static_cast<int64_t>(frequencies.size());
  std::vector<Wide> y;
  for (int64_t s = 0; s < x.dim(0); ++s) {
    for (int64_t b = 0; b < x.dim(1); ++b) {
      for (int64_t n = 0; n < x.dim(2); ++n) {
        for (int64_t d = 0; d < x.dim(3); ++d) {
          const Wide self = x.at<T>({s, b, n, d});
          if (d >= 2 * pairs) {
            y.push_back(self);
            continue;
          }
          const int64_t pair = variant.interleaved ? d / 2 : d % pairs;
          const bool first = variant.interleaved ? d % 2 == 0 : d < pairs;
          const int64_t distance = variant.interleaved ? 1 : pairs;
          const Wide partner = x.at<T>({s, b, n, first ? d + distance : d - distance});
          // The angle is rounded to double, as the operator's is.
          const double position =
              static_cast<double>(positions.at<int64_t>({b, s}) + variant.shift);
          const Wide angle = position * frequencies[static_cast<size_t>(pair)];
          const Wide sin = (variant.inverse ? -1 : 1) * std::sin(angle);
          y.push_back(self * std::cos(angle) + (first ? -1 : 1) * partner * sin);
        }
      }
    }
  }
  return y;
}

// Two packed documents in one sample, one in the other.
Tensor Positions() {
  return Tensor::FromVector<int64_t>(kContext, {2, 5}, {0, 1, 2, 0, 1, 0, 1, 2, 3, 4});
}

const std::vector<double> kFrequencies = {1.0, 0.3, 0.01};

template <class T>
class RopeTest : public ::testing::Test {};
TYPED_TEST_SUITE(RopeTest, testing::ScalarTypes, testing::ScalarNames);

TYPED_TEST(RopeTest, RotatesEachPairByItsPositionAndPassesTheRest) {
  using T = TypeParam;
  for (int64_t channels : {6, 7, 10}) {
    const Tensor x = Random<T>({5, 2, 3, channels}, "x");
    for (bool interleaved : {false, true}) {
      SCOPED_TRACE(fmt::format("channels {} interleaved {}", channels, interleaved));
      const Tensor y = RopeForward(kContext, x, Positions(), kFrequencies, interleaved);
      const auto deviation = [&](const Variant& variant) {
        return DeviationFrom<T>(y, Reference<T>(x, Positions(), kFrequencies, variant));
      };
      EXPECT_LE(deviation({.interleaved = interleaved}), Bound<T>(3));
      EXPECT_GT(deviation({.interleaved = !interleaved}), 1e-2);
      EXPECT_GT(deviation({.interleaved = interleaved, .inverse = true}), 1e-2);
      EXPECT_GT(deviation({.interleaved = interleaved, .shift = 1}), 1e-2);
      EXPECT_THAT(RopeForward(kContext, Scattered<T>(x), Scattered<int64_t>(Positions()),
                              kFrequencies, interleaved),
                  BitEquals(y));
    }
  }
}

TYPED_TEST(RopeTest, BackwardIsTheInverseRotation) {
  using T = TypeParam;
  const Tensor x = Random<T>({5, 2, 3, 8}, "x");
  for (bool interleaved : {false, true}) {
    const Tensor y = RopeForward(kContext, x, Positions(), kFrequencies, interleaved);
    const Tensor back = RopeBackward(kContext, y, Positions(), kFrequencies, interleaved);
    EXPECT_TRUE(Compare(back, x).Within(Bound<T>(6)));
    EXPECT_LE(DeviationFrom<T>(RopeBackward(kContext, x, Positions(), kFrequencies, interleaved),
                               Reference<T>(x, Positions(), kFrequencies,
                                            {.interleaved = interleaved, .inverse = true})),
              Bound<T>(3));
  }
}

TYPED_TEST(RopeTest, AHeadOrPositionDoesNotDependOnTheOthers) {
  using T = TypeParam;
  const Tensor x = Random<T>({5, 2, 4, 6}, "x");
  const Tensor y = RopeForward(kContext, x, Positions(), kFrequencies, false);
  EXPECT_THAT(RopeForward(kContext, x.Slice(2, 1, 3), Positions(), kFrequencies, false),
              BitEquals(y.Slice(2, 1, 3).Clone(kContext)));
  EXPECT_THAT(
      RopeForward(kContext, x.Slice(0, 2, 5), Positions().Slice(1, 2, 5), kFrequencies, false),
      BitEquals(y.Slice(0, 2, 5).Clone(kContext)));
  EXPECT_THAT(
      RopeForward(kContext, x.Slice(1, 1, 2), Positions().Slice(0, 1, 2), kFrequencies, false),
      BitEquals(y.Slice(1, 1, 2).Clone(kContext)));
}

TYPED_TEST(RopeTest, NoPairsIsTheIdentityAndEmptyIsEmpty) {
  using T = TypeParam;
  const Tensor x = Random<T>({5, 2, 3, 8}, "x");
  EXPECT_THAT(RopeForward(kContext, x, Positions(), {}, false), BitEquals(x));
  const Tensor none = Random<T>({0, 2, 3, 8}, "none");
  EXPECT_EQ(RopeForward(kContext, none, Positions().Slice(1, 0, 0), kFrequencies, false).elements(),
            0);
}

TYPED_TEST(RopeTest, NanReachesItsPairOnly) {
  using T = TypeParam;
  const Tensor x = testing::WithNan<T>(Random<T>({5, 2, 1, 6}, "x"), 7);
  EXPECT_EQ(testing::NanElements<T>(RopeForward(kContext, x, Positions(), kFrequencies, false)),
            (std::vector<int64_t>{7, 10}));
  EXPECT_EQ(testing::NanElements<T>(RopeForward(kContext, x, Positions(), kFrequencies, true)),
            (std::vector<int64_t>{6, 7}));
}

TEST(RopeFrequenciesTest, ArePowersOfTheBaseOverTheRotatedChannels) {
  TransformerConfig config;
  config.kv_channels = 16;
  config.rotary_percent = 0.5;
  config.rotary_base = 500;
  const std::vector<double> plain = RotaryInverseFrequencies(config);
  ASSERT_EQ(plain.size(), 4u);
  for (int i = 0; i < 4; ++i) EXPECT_DOUBLE_EQ(plain[i], std::pow(500.0, -2.0 * i / 8));
  config.rope_scaling = RopeScaling::kLinear;
  config.rope_scaling_factor = 4;
  const std::vector<double> linear = RotaryInverseFrequencies(config);
  for (int i = 0; i < 4; ++i) EXPECT_DOUBLE_EQ(linear[i], plain[i] / 4);
}

TEST(RopeFrequenciesTest, Llama3KeepsShortWavesSlowsLongOnesAndIsContinuousBetween) {
  TransformerConfig config;
  config.kv_channels = 128;
  config.rotary_base = 500000;
  const std::vector<double> plain = RotaryInverseFrequencies(config);
  config.rope_scaling = RopeScaling::kLlama3;
  config.rope_scaling_factor = 8;
  const std::vector<double> scaled = RotaryInverseFrequencies(config);
  ASSERT_EQ(scaled.size(), 64u);
  int kept = 0, slowed = 0, blended = 0;
  for (size_t i = 0; i < scaled.size(); ++i) {
    // The published rule, in wave lengths.
    const double wave = 2 * std::numbers::pi / plain[i];
    if (wave < 8192.0 / 4) {
      EXPECT_EQ(scaled[i], plain[i]);
      ++kept;
    } else if (wave > 8192.0 / 1) {
      EXPECT_DOUBLE_EQ(scaled[i], plain[i] / 8);
      ++slowed;
    } else {
      const double smooth = (8192 / wave - 1) / (4 - 1);
      EXPECT_NEAR(scaled[i] / ((1 - smooth) * plain[i] / 8 + smooth * plain[i]), 1, 1e-14);
      ++blended;
    }
  }
  EXPECT_GT(kept, 20);
  EXPECT_GT(slowed, 20);
  EXPECT_GT(blended, 2);
}

TEST(RopeErrorsTest, ShapesMustFit) {
  const Tensor x = Random<double>({5, 2, 3, 4}, "x");
  EXPECT_THROW(RopeForward(kContext, x, Positions(), kFrequencies, false), InvalidArgument);
  EXPECT_THROW(RopeForward(kContext, x, Positions().Transpose(0, 1), {1.0}, false),
               InvalidArgument);
  EXPECT_THROW(RopeForward(kContext, x, Random<double>({2, 5}, "p"), {1.0}, false),
               InvalidArgument);
}

}  // namespace
}  // namespace plumbline
