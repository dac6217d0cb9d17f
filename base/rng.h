// Counter-based random numbers: a value is a function of a key and an index, whatever was drawn
// before.
//
// Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3" (Philox4x32-10).
#ifndef PLUMBLINE_BASE_RNG_H_
#define PLUMBLINE_BASE_RNG_H_

#include <array>
#include <cstdint>
#include <string_view>

namespace plumbline {

using PhiloxBlock = std::array<uint32_t, 4>;

// Inline, because dropout and initialisation call it per element.
inline PhiloxBlock Philox4x32(PhiloxBlock counter, std::array<uint32_t, 2> key) {
  constexpr uint32_t kMultipliers[2] = {0xD2511F53, 0xCD9E8D57};
  constexpr uint32_t kWeyl[2] = {0x9E3779B9, 0xBB67AE85};
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{kMultipliers[0]} * counter[0];
    const uint64_t product1 = uint64_t{kMultipliers[1]} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key[0] += kWeyl[0];
    key[1] += kWeyl[1];
  }
  return counter;
}

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
  // Box-Muller on the block of `index`; finite.
  double Normal(uint64_t index) const;
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
