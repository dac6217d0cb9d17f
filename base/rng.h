// Counter-based random numbers: a value is a function of a key and an index, whatever was drawn
// before.
//
// Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3" (Philox4x32-10).
#ifndef PLUMBLINE_BASE_RNG_H_
#define PLUMBLINE_BASE_RNG_H_

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <span>
#include <string_view>

namespace plumbline {

namespace internal {
inline constexpr int kPhiloxRounds = 10;
inline constexpr uint32_t kPhiloxMultipliers[2] = {0xD2511F53, 0xCD9E8D57};
inline constexpr uint32_t kPhiloxWeyl[2] = {0x9E3779B9, 0xBB67AE85};
}  // namespace internal

using PhiloxBlock = std::array<uint32_t, 4>;

// Inline, because dropout and initialisation call it per element.
inline PhiloxBlock Philox4x32(PhiloxBlock counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < internal::kPhiloxRounds; ++round) {
    const uint64_t product0 = uint64_t{internal::kPhiloxMultipliers[0]} * counter[0];
    const uint64_t product1 = uint64_t{internal::kPhiloxMultipliers[1]} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key[0] += internal::kPhiloxWeyl[0];
    key[1] += internal::kPhiloxWeyl[1];
  }
  return counter;
}

namespace internal {

// The upper 52 bits as a number in [1, 2).
inline double OneToTwo(uint64_t word) {
  return std::bit_cast<double>(uint64_t{0x3FF0000000000000} | word >> 12);
}

// The two functions of Normal, in plain arithmetic: initial values have the same bits with every
// mathematical library, and compilers vectorise loops over Normal. Good to about 1e-15.

// log(x) for 2^-52 <= x <= 1: x = m * 2^e with m in [sqrt(1/2), sqrt(2)), and
// log(m) = 2 * artanh(s), s = (m - 1) / (m + 1), |s| < 0.172.
inline double LogOfUnit(double x) {
  constexpr uint64_t kSqrtHalf = 0x3FE6A09E667F3BCD;
  constexpr uint64_t kMantissa = 0xFFFFFFFFFFFFF;
  constexpr uint64_t kMagic = 0x4338000000000000;  // 1.5 * 2^52: its low bits count units
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  // The exponent's excess over that of sqrt(1/2), made unsigned by an offset of 1024.
  const uint64_t e = (bits - kSqrtHalf + (uint64_t{1024} << 52)) >> 52;
  const double exponent =
      std::bit_cast<double>(kMagic + e) - std::bit_cast<double>(kMagic + uint64_t{1024});
  const double m = std::bit_cast<double>(((bits - kSqrtHalf) & kMantissa) + kSqrtHalf);
  const double s = (m - 1) / (m + 1);
  const double z = s * s;
  double sum = 1.0 / 19;
  for (int n = 17; n >= 1; n -= 2) sum = sum * z + 1.0 / n;
  return exponent * std::numbers::ln2 + 2 * s * sum;
}

// cos(2 pi t) for -1/2 <= t <= 1/2, as -sin(2 pi (|t| - 1/4)) by its series.
inline double CosOfTurns(double t) {
  const double x = 2 * std::numbers::pi * (std::abs(t) - 0.25);
  const double z = x * x;
  double sum = 1;
  for (int n = 20; n >= 2; n -= 2) sum = 1 - sum * z * (1.0 / (n * (n + 1)));
  return -x * sum;
}

// Box-Muller: squared radius and cosine, from a number in (0, 1], so that the logarithm is finite,
// and an angle of [-1/2, 1/2) turns. Apart from the square root, whose error handling would keep a
// loop scalar.
struct Polar {
  double squared_radius;
  double cosine;
};
inline Polar PolarOf(PhiloxBlock block) {
  const double unit = 2 - OneToTwo(block[0] | uint64_t{block[1]} << 32);
  const double turns = OneToTwo(block[2] | uint64_t{block[3]} << 32) - 1.5;
  return {-2 * LogOfUnit(unit), CosOfTurns(turns)};
}

}  // namespace internal

// A stream of 2^64 independent 64-bit words, addressed by index.
struct RandomStream {
  uint64_t key = 0;
  uint64_t nonce = 0;

  PhiloxBlock Block(uint64_t index) const {
    return Philox4x32({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
                       static_cast<uint32_t>(nonce), static_cast<uint32_t>(nonce >> 32)},
                      {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
  }
  uint64_t Bits(uint64_t index) const {
    const PhiloxBlock block = Block(index);
    return block[0] | uint64_t{block[1]} << 32;
  }
  // In [0, 1), 53 bits.
  double Uniform(uint64_t index) const { return static_cast<double>(Bits(index) >> 11) * 0x1p-53; }
  // Box-Muller on the block of `index`: at most 8.5 in magnitude.
  double Normal(uint64_t index) const {
    const internal::Polar polar = internal::PolarOf(Block(index));
    return std::sqrt(polar.squared_radius) * polar.cosine;
  }

  // The same values many at a time, several times faster: words[i] = Bits(first + i), and
  // values[i] = Normal(indices[i]).
  void FillBits(uint64_t first, std::span<uint64_t> words) const;
  void FillNormal(std::span<const uint64_t> indices, std::span<double> values) const;
};

uint64_t HashOfName(std::string_view name);  // XXH3 of the bytes: fixed for ever

// Streams never overlap between purposes.
RandomStream InitStream(uint64_t seed, std::string_view parameter);
RandomStream DataStream(uint64_t seed, std::string_view purpose);

// The key of one dropout: seed, step, site (as HashOfName("decoder.layers.3.mlp.dropout")) and
// sample. The element's index in the sample's global tensor addresses the word.
RandomStream DropoutStream(uint64_t seed, int64_t step, uint64_t site_hash, int64_t sample);
// Dropping with this probability keeps an element when its word is below the result. Probability
// 0 has no threshold that keeps every word: don't draw then.
uint64_t KeepThreshold(double drop_probability);

}  // namespace plumbline

#endif  // PLUMBLINE_BASE_RNG_H_
