#include "oracle/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "base/error.h"
#include "tests/oracle/operator_check.h"

namespace plumbline {
namespace {

TransformerConfig RopeConfig(int64_t channels, double percent = 1) {
  TransformerConfig config;
  config.position_embedding = PositionEmbedding::kRope;
  config.kv_channels = channels;
  config.rotary_percent = percent;
  return config;
}

TEST(RopeTest, FrequenciesFallGeometrically) {
  const std::vector<double> f = InverseFrequencies(RopeConfig(8));
  ASSERT_EQ(f.size(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(f[i], std::pow(0.1, i), 1e-16);
}

TEST(RopeTest, PartialRotationSpreadsOverTheRotatingChannels) {
  EXPECT_EQ(InverseFrequencies(RopeConfig(16, 0.5)), InverseFrequencies(RopeConfig(8)));
}

TEST(RopeTest, OtherPositionEmbeddingsHaveNoFrequencies) {
  EXPECT_TRUE(InverseFrequencies(TransformerConfig()).empty());
}

TEST(RopeTest, LinearScalingDividesByTheFactor) {
  TransformerConfig config = RopeConfig(8);
  const std::vector<double> plain = InverseFrequencies(config);
  config.rope_scaling = RopeScaling::kLinear;
  config.rope_scaling_factor = 4;
  const std::vector<double> scaled = InverseFrequencies(config);
  for (size_t i = 0; i < 4; ++i) EXPECT_DOUBLE_EQ(scaled[i], plain[i] / 4);
}

// Base 500 over 8 channels has wavelengths 6.3, 29.7, 140.5 and 664: with an original length of
// 256 and factors 1 and 4 the first two stay, the third is between, the last is divided.
TEST(RopeTest, Llama3ScalingHasThreeRanges) {
  TransformerConfig config = RopeConfig(8);
  config.rotary_base = 500;
  const std::vector<double> plain = InverseFrequencies(config);
  config.rope_scaling = RopeScaling::kLlama3;
  config.rope_scaling_factor = 8;
  config.rope_low_freq_factor = 1;
  config.rope_high_freq_factor = 4;
  config.rope_original_max_position = 256;
  const std::vector<double> scaled = InverseFrequencies(config);
  EXPECT_DOUBLE_EQ(scaled[0], plain[0]);
  EXPECT_DOUBLE_EQ(scaled[1], plain[1]);
  const double turns = 256 * plain[2] / (2 * std::numbers::pi);
  EXPECT_NEAR(scaled[2] / plain[2], 1.0 / 8 + (1 - 1.0 / 8) * (turns - 1) / 3, 1e-15);
  EXPECT_DOUBLE_EQ(scaled[3], plain[3] / 8);
}

// The interpolation meets both neighbours at their borders.
TEST(RopeTest, Llama3ScalingIsContinuous) {
  TransformerConfig config = RopeConfig(4);
  config.rope_scaling = RopeScaling::kLlama3;
  config.rope_scaling_factor = 8;
  config.rope_original_max_position = 100;
  for (double border : {1.0, 4.0}) {
    std::vector<double> at;
    for (double nudge : {1 - 1e-9, 1 + 1e-9}) {
      // The second frequency is base^(-1/2); its wavelength is 100 / border.
      config.rotary_base = std::pow(100 / border / (2 * std::numbers::pi) * nudge, 2);
      at.push_back(InverseFrequencies(config)[1]);
    }
    EXPECT_NEAR(at[0] / at[1], 1, 1e-7) << border;
  }
}

TEST(RopeTest, RefusesAnOddNumberOfRotatingChannels) {
  EXPECT_THROW(InverseFrequencies(RopeConfig(6, 0.5)), InvalidArgument);
  EXPECT_THROW(InverseFrequencies(RopeConfig(8, 0.1)), InvalidArgument);
}

class RopePairsTest : public testing::TestWithParam<bool> {};

TEST_P(RopePairsTest, PairsTurnAndTheRestPasses) {
  Matrix<double> x(1, 12);  // two heads of 6 channels, 4 of which turn
  x << 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12;
  const auto table = MakeRotaryTable<double>({3}, {0.5, 0.25});
  const Matrix<double> y = RopeForward(x, table, 6, GetParam());
  const auto turn = [&](int a, int b, double angle) {
    EXPECT_DOUBLE_EQ(y(0, a), x(0, a) * std::cos(angle) - x(0, b) * std::sin(angle));
    EXPECT_DOUBLE_EQ(y(0, b), x(0, a) * std::sin(angle) + x(0, b) * std::cos(angle));
  };
  for (int head : {0, 6}) {
    turn(head, head + (GetParam() ? 1 : 2), 1.5);
    turn(head + (GetParam() ? 2 : 1), head + 3, 0.75);
    EXPECT_EQ(y(0, head + 4), x(0, head + 4));
    EXPECT_EQ(y(0, head + 5), x(0, head + 5));
  }
}

TEST_P(RopePairsTest, ProductsDependOnTheDistanceAlone) {
  const std::vector<double> f = InverseFrequencies(RopeConfig(8));
  const Matrix<double> q = RandomMatrix(1, 1, 8);
  const Matrix<double> k = RandomMatrix(2, 1, 8);
  const auto product = [&](int64_t query, int64_t key) {
    const Matrix<double> a = RopeForward(q, MakeRotaryTable<double>({query}, f), 8, GetParam());
    const Matrix<double> b = RopeForward(k, MakeRotaryTable<double>({key}, f), 8, GetParam());
    return a.cwiseProduct(b).sum();
  };
  EXPECT_NEAR(product(9, 4), product(5, 0), 1e-14);
  EXPECT_GT(std::abs(product(9, 4) - product(9, 5)), 1e-3);
}

TEST_P(RopePairsTest, BackwardIsTheDerivativeOfForward) {
  const auto frequencies = InverseFrequencies(RopeConfig(6));
  const std::vector<int64_t> positions = {0, 1, 2, 5, 11};
  const Matrices<double> inputs = {RandomMatrix(3, 5, 16)};  // two heads of 8, 6 of which turn
  const auto forward = [&]<class T>(const std::vector<Matrix<T>>& in) {
    return RopeForward(in[0], MakeRotaryTable<T>(positions, frequencies), 8, GetParam());
  };
  const auto table = MakeRotaryTable<double>(positions, frequencies);
  const auto backward = [&](const Matrix<double>& dy, const Matrices<double>&) {
    return Matrices<double>{RopeBackward(dy, table, 8, GetParam())};
  };
  EXPECT_LE(WorstJvpError(inputs, forward, backward), kJvpBound);
  // Turning the gradient forward, or in the other pairs, is seen.
  const auto forward_again = [&](const Matrix<double>& dy, const Matrices<double>&) {
    return Matrices<double>{RopeForward(dy, table, 8, GetParam())};
  };
  EXPECT_GT(WorstJvpError(inputs, forward, forward_again), 1e-3);
  const auto other_pairs = [&](const Matrix<double>& dy, const Matrices<double>&) {
    return Matrices<double>{RopeBackward(dy, table, 8, !GetParam())};
  };
  EXPECT_GT(WorstJvpError(inputs, forward, other_pairs), 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Pairs, RopePairsTest, testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "interleaved" : "half_split");
});

}  // namespace
}  // namespace plumbline
