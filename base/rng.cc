#include "base/rng.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace plumbline {
namespace {

// One tag a purpose: the first word of what is hashed into a stream's key.
enum class Purpose : uint64_t { kInit = 1, kData = 2, kDropout = 3 };

uint64_t Hash(std::array<uint64_t, 3> words) { return XXH3_64bits(words.data(), sizeof(words)); }

// Blocks are drawn so many at a time; their words lie side by side, so that each round is a loop
// over lanes that compilers turn into vector code.
constexpr size_t kLanes = 64;
struct Lanes {
  std::array<uint32_t, kLanes> words[4];
};

void Draw(const RandomStream& stream, const std::array<uint64_t, kLanes>& indices, Lanes& lanes) {
  auto& [c0, c1, c2, c3] = lanes.words;
  for (size_t i = 0; i < kLanes; ++i) {
    c0[i] = static_cast<uint32_t>(indices[i]);
    c1[i] = static_cast<uint32_t>(indices[i] >> 32);
    c2[i] = static_cast<uint32_t>(stream.nonce);
    c3[i] = static_cast<uint32_t>(stream.nonce >> 32);
  }
  uint32_t key0 = static_cast<uint32_t>(stream.key);
  uint32_t key1 = static_cast<uint32_t>(stream.key >> 32);
  for (int round = 0; round < internal::kPhiloxRounds; ++round) {
    for (size_t i = 0; i < kLanes; ++i) {
      const uint64_t product0 = uint64_t{internal::kPhiloxMultipliers[0]} * c0[i];
      const uint64_t product1 = uint64_t{internal::kPhiloxMultipliers[1]} * c2[i];
      c0[i] = static_cast<uint32_t>(product1 >> 32) ^ c1[i] ^ key0;
      c1[i] = static_cast<uint32_t>(product1);
      c2[i] = static_cast<uint32_t>(product0 >> 32) ^ c3[i] ^ key1;
      c3[i] = static_cast<uint32_t>(product0);
    }
    key0 += internal::kPhiloxWeyl[0];
    key1 += internal::kPhiloxWeyl[1];
  }
}

}  // namespace

void RandomStream::FillBits(uint64_t first, std::span<uint64_t> words) const {
  std::array<uint64_t, kLanes> indices;
  Lanes lanes;
  for (size_t begin = 0; begin < words.size(); begin += kLanes) {
    for (size_t i = 0; i < kLanes; ++i) indices[i] = first + begin + i;
    Draw(*this, indices, lanes);
    const size_t n = std::min(kLanes, words.size() - begin);
    for (size_t i = 0; i < n; ++i) {
      words[begin + i] = lanes.words[0][i] | uint64_t{lanes.words[1][i]} << 32;
    }
  }
}

void RandomStream::FillNormal(std::span<const uint64_t> indices, std::span<double> values) const {
  std::array<uint64_t, kLanes> batch = {};
  std::array<double, kLanes> squares;
  std::array<double, kLanes> cosines;
  Lanes lanes;
  for (size_t begin = 0; begin < indices.size(); begin += kLanes) {
    const size_t n = std::min(kLanes, indices.size() - begin);
    std::copy_n(indices.begin() + begin, n, batch.begin());
    Draw(*this, batch, lanes);
    for (size_t i = 0; i < kLanes; ++i) {
      const internal::Polar polar = internal::PolarOf(
          {lanes.words[0][i], lanes.words[1][i], lanes.words[2][i], lanes.words[3][i]});
      squares[i] = polar.squared_radius;
      cosines[i] = polar.cosine;
    }
    for (size_t i = 0; i < n; ++i) values[begin + i] = std::sqrt(squares[i]) * cosines[i];
  }
}

uint64_t HashOfName(std::string_view name) { return XXH3_64bits(name.data(), name.size()); }

RandomStream InitStream(uint64_t seed, std::string_view parameter) {
  return {Hash({static_cast<uint64_t>(Purpose::kInit), seed, 0}), HashOfName(parameter)};
}

RandomStream DataStream(uint64_t seed, std::string_view purpose) {
  return {Hash({static_cast<uint64_t>(Purpose::kData), seed, 0}), HashOfName(purpose)};
}

RandomStream DropoutStream(uint64_t seed, int64_t step, uint64_t site_hash, int64_t sample) {
  return {
      Hash({static_cast<uint64_t>(Purpose::kDropout), seed, static_cast<uint64_t>(step)}),
      Hash({static_cast<uint64_t>(Purpose::kDropout), site_hash, static_cast<uint64_t>(sample)})};
}

uint64_t KeepThreshold(double drop_probability) {
  const double words = (1 - drop_probability) * 0x1p64;
  if (!(words > 0)) return 0;
  return words >= 0x1p64 ? std::numeric_limits<uint64_t>::max() : static_cast<uint64_t>(words);
}

}  // namespace plumbline
