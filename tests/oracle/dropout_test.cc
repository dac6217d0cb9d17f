#include "oracle/dropout.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"
#include "tests/oracle/operator_check.h"

namespace plumbline {
namespace {

const DropoutKeys kKeys = {5, 2, {10, 13, 11}};

TEST(DropoutTest, HiddenMaskReadsTheWordOfPositionAndColumn) {
  const KeepMask keep = HiddenKeepMask(kKeys, "site", 0.25, 6, 9);
  ASSERT_EQ(keep.rows(), 18);
  ASSERT_EQ(keep.cols(), 9);
  for (int64_t b = 0; b < 3; ++b) {
    const RandomStream stream =
        DropoutStream(5, 2, HashOfName("site"), kKeys.samples[static_cast<size_t>(b)]);
    for (int64_t s = 0; s < 6; ++s) {
      for (int64_t h = 0; h < 9; ++h) {
        const bool kept = stream.Bits(static_cast<uint64_t>(s * 9 + h)) < KeepThreshold(0.25);
        EXPECT_EQ(keep(s * 3 + b, h) != 0, kept) << b << " " << s << " " << h;
      }
    }
  }
}

TEST(DropoutTest, AttentionMaskReadsTheWordOfHeadQueryAndKey) {
  const std::vector<KeepMask> masks = AttentionKeepMasks(kKeys, "site", 0.4, 2, 5);
  ASSERT_EQ(masks.size(), 6u);
  for (size_t i = 0; i < masks.size(); ++i) {
    const RandomStream stream = DropoutStream(5, 2, HashOfName("site"), kKeys.samples[i / 2]);
    for (uint64_t query = 0; query < 5; ++query) {
      for (uint64_t key = 0; key <= query; ++key) {
        const uint64_t word = stream.Bits((i % 2 * 5 + query) * 5 + key);
        EXPECT_EQ(masks[i](static_cast<int>(query), static_cast<int>(key)) != 0,
                  word < KeepThreshold(0.4));
      }
    }
  }
}

// 20,000 draws: the share that is kept has a standard deviation of 0.0031 at p = 1/4.
TEST(DropoutTest, KeepsOneMinusPOfTheElements) {
  const KeepMask keep = HiddenKeepMask({1, 1, {0}}, "site", 0.25, 100, 200);
  EXPECT_NEAR(keep.cast<double>().mean(), 0.75, 0.0155);
}

TEST(DropoutTest, MaskDependsOnSeedStepSiteAndSample) {
  const DropoutKeys one = {5, 2, {10}};
  const KeepMask keep = HiddenKeepMask(one, "site", 0.5, 8, 32);
  EXPECT_EQ(HiddenKeepMask(one, "site", 0.5, 8, 32), keep);
  EXPECT_NE(HiddenKeepMask({6, 2, {10}}, "site", 0.5, 8, 32), keep);
  EXPECT_NE(HiddenKeepMask({5, 3, {10}}, "site", 0.5, 8, 32), keep);
  EXPECT_NE(HiddenKeepMask({5, 2, {11}}, "site", 0.5, 8, 32), keep);
  EXPECT_NE(HiddenKeepMask(one, "other", 0.5, 8, 32), keep);
}

TEST(DropoutTest, ScalesWhatItKeeps) {
  const Matrix<double> x = RandomMatrix(1, 18, 9);
  const KeepMask keep = HiddenKeepMask(kKeys, "site", 0.25, 6, 9);
  Matrix<double> y = x;
  ApplyDropout(keep, 0.25, y);
  for (Eigen::Index i = 0; i < x.size(); ++i) {
    EXPECT_DOUBLE_EQ(y.data()[i], keep.data()[i] != 0 ? x.data()[i] / 0.75 : 0);
  }
}

TEST(DropoutTest, ZeroProbabilityChangesNothing) {
  EXPECT_EQ(HiddenKeepMask(kKeys, "site", 0, 6, 9).size(), 0);
  EXPECT_TRUE(AttentionKeepMasks(kKeys, "site", 0, 2, 5).empty());
  const Matrix<double> x = RandomMatrix(1, 18, 9);
  Matrix<double> y = x;
  ApplyDropout({}, 0, y);
  EXPECT_EQ(y, x);
}

TEST(DropoutTest, IsItsOwnBackward) {
  const KeepMask keep = HiddenKeepMask(kKeys, "site", 0.25, 6, 9);
  const auto apply = [&](auto x) {
    ApplyDropout(keep, 0.25, x);
    return x;
  };
  const auto forward = [&](const auto& in) { return apply(in[0]); };
  const auto backward = [&](const Matrix<double>& dy, const Matrices<double>&) {
    return Matrices<double>{apply(dy)};
  };
  EXPECT_LE(WorstJvpError({RandomMatrix(1, 18, 9)}, forward, backward), kJvpBound);
}

}  // namespace
}  // namespace plumbline
