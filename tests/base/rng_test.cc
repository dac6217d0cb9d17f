#include "base/rng.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <utility>
#include <vector>

namespace plumbline {
namespace {

// Random123's known answers for philox4x32 with 10 rounds.
TEST(PhiloxTest, MatchesThePublishedVectors) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomStreamTest, EveryBitOfKeyNonceAndIndexCounts) {
  std::set<uint64_t> words = {RandomStream{0, 0}.Bits(0)};
  for (int bit = 0; bit < 64; ++bit) {
    words.insert(RandomStream{uint64_t{1} << bit, 0}.Bits(0));
    words.insert(RandomStream{0, uint64_t{1} << bit}.Bits(0));
    words.insert(RandomStream{0, 0}.Bits(uint64_t{1} << bit));
  }
  EXPECT_EQ(words.size(), 1u + 3 * 64);
}

constexpr int kDraws = 200000;

TEST(RandomStreamTest, UniformHasTheMomentsAndTheRangeOfOne) {
  const RandomStream stream = DataStream(1, "test");
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = stream.Uniform(i);
    ASSERT_GE(x, 0);
    ASSERT_LT(x, 1);
    sum += x;
    squares += x * x;
  }
  // Five standard errors: sqrt(1/12 / n) = 6.5e-4 and sqrt(4/45 / n) = 6.7e-4.
  EXPECT_NEAR(sum / kDraws, 0.5, 3.3e-3);
  EXPECT_NEAR(squares / kDraws, 1.0 / 3, 3.4e-3);
}

TEST(RandomStreamTest, NormalHasTheMomentsOfOneAndIsFinite) {
  const RandomStream stream = DataStream(1, "test");
  double moments[5] = {};
  double neighbours = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = stream.Normal(i);
    ASSERT_TRUE(std::isfinite(x));
    for (int k = 1; k <= 4; ++k) moments[k] += std::pow(x, k) / kDraws;
    neighbours += x * stream.Normal(i + 1) / kDraws;
  }
  // Five standard errors: sqrt((E x^2k - (E x^k)^2) / n) for k = 1..4 is 1, sqrt 2, sqrt 15, sqrt
  // 96 times 2.2e-3.
  EXPECT_NEAR(moments[1], 0, 5 * 2.24e-3);
  EXPECT_NEAR(moments[2], 1, 5 * 3.17e-3);
  EXPECT_NEAR(moments[3], 0, 5 * 8.67e-3);
  EXPECT_NEAR(moments[4], 3, 5 * 2.2e-2);
  EXPECT_NEAR(neighbours, 0, 5 * 2.24e-3);
}

TEST(RandomStreamTest, LogAndCosineAreTheMathematicalOnes) {
  for (int i = 0; i <= 100000; ++i) {
    const double x = (i + 1) / 100001.0;
    ASSERT_NEAR(internal::LogOfUnit(x), std::log(x), 4e-15) << x;
    const double turns = i / 100000.0 - 0.5;
    ASSERT_NEAR(internal::CosOfTurns(turns), std::cos(2 * M_PI * turns), 1e-15) << turns;
  }
  EXPECT_EQ(internal::LogOfUnit(1), 0);
  EXPECT_NEAR(internal::LogOfUnit(0x1p-52), std::log(0x1p-52), 1e-14);
}

TEST(RandomStreamTest, ManyAtATimeAreTheSame) {
  const RandomStream stream = DataStream(3, "test");
  for (size_t n : {0, 1, 63, 64, 65, 1000}) {
    std::vector<uint64_t> words(n);
    stream.FillBits(~uint64_t{0} - 5, words);  // wraps round
    std::vector<uint64_t> indices(n);
    for (size_t i = 0; i < n; ++i) indices[i] = i * i * 7919;
    std::vector<double> normals(n);
    stream.FillNormal(indices, normals);
    for (size_t i = 0; i < n; ++i) {
      ASSERT_EQ(words[i], stream.Bits(~uint64_t{0} - 5 + i)) << n << " " << i;
      ASSERT_EQ(normals[i], stream.Normal(indices[i])) << n << " " << i;
    }
  }
}

TEST(StreamsTest, DifferByPurposeSeedNameStepSiteAndSample) {
  const uint64_t site = HashOfName("decoder.layers.0.mlp.dropout");
  const std::vector<RandomStream> streams = {
      InitStream(1, "a"),           InitStream(2, "a"),           InitStream(1, "b"),
      DataStream(1, "a"),           DataStream(2, "a"),           DataStream(1, "b"),
      DropoutStream(1, 1, site, 0), DropoutStream(2, 1, site, 0), DropoutStream(1, 2, site, 0),
      DropoutStream(1, 1, 5, 0),    DropoutStream(1, 1, site, 1), DropoutStream(1, 1, 0, site)};
  std::set<std::pair<uint64_t, uint64_t>> distinct;
  std::set<uint64_t> words;
  for (const RandomStream& stream : streams) {
    distinct.insert({stream.key, stream.nonce});
    for (int i = 0; i < 100; ++i) words.insert(stream.Bits(i));
  }
  EXPECT_EQ(distinct.size(), streams.size());
  EXPECT_EQ(words.size(), 100 * streams.size());
}

// Recorded: a change would change every run of every seed.
TEST(StreamsTest, AreFixedForEver) {
  EXPECT_EQ(HashOfName(""), 0x2d06800538d394c2u);  // XXH3's published value for no bytes
  EXPECT_EQ(InitStream(1234, "decoder.layers.0.mlp.linear_fc1.weight").Bits(7),
            0x1550b4df7f08d625u);
  EXPECT_EQ(DataStream(1234, "loss_mask").Bits(7), 0xa6b6ac126f160a00u);
  EXPECT_EQ(DropoutStream(1234, 1, HashOfName("x"), 3).Bits(7), 0x55a7e8712a768893u);
}

TEST(DropoutTest, KeepsTheFractionAsked) {
  for (double probability : {0.1, 0.5, 0.9}) {
    const RandomStream stream = DropoutStream(1, 1, HashOfName("site"), 0);
    const uint64_t threshold = KeepThreshold(probability);
    int kept = 0;
    for (int i = 0; i < kDraws; ++i) kept += stream.Bits(i) < threshold ? 1 : 0;
    // Five standard errors of at most sqrt(0.25 / n) = 1.1e-3.
    EXPECT_NEAR(static_cast<double>(kept) / kDraws, 1 - probability, 5.6e-3);
  }
}

TEST(DropoutTest, ThresholdStaysInRange) {
  EXPECT_EQ(KeepThreshold(1), 0u);
  EXPECT_EQ(KeepThreshold(2), 0u);
  EXPECT_EQ(KeepThreshold(0.5), uint64_t{1} << 63);
  EXPECT_EQ(KeepThreshold(0.75), uint64_t{1} << 62);
  EXPECT_EQ(KeepThreshold(0), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(KeepThreshold(std::nan("")), 0u);
}

}  // namespace
}  // namespace plumbline
