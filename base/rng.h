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
PhiloxBlock Philox4x32(PhiloxBlock counter, std::array<uint32_t, 2> key);

// A stream of 2^64 independent 64-bit words, addressed by index.
struct RandomStream {
  uint64_t key = 0;
  uint64_t nonce = 0;

  uint64_t Bits(uint64_t index) const;
  double Uniform(uint64_t index) const;  // in [0, 1), 53 bits
  double Normal(uint64_t index) const;   // Box-Muller on the words of `index`; finite
};

uint64_t HashOfName(std::string_view name);  // 64 bits, fixed for ever

// Streams never overlap between purposes.
RandomStream InitStream(uint64_t seed, std::string_view parameter);
RandomStream DataStream(uint64_t seed, std::string_view purpose);

// The key of one dropout: seed, step, site (as "decoder.layers.3.mlp.dropout") and sample. The
// element's index in the sample's global tensor addresses the word.
RandomStream DropoutStream(uint64_t seed, int64_t step, uint64_t site_hash, int64_t sample);
// An element is kept when its word is below this.
uint64_t KeepThreshold(double probability);

}  // namespace plumbline

#endif  // PLUMBLINE_BASE_RNG_H_
