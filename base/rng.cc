#include "base/rng.h"

#include <xxhash.h>

#include <cmath>
#include <limits>
#include <numbers>

namespace plumbline {
namespace {

// One tag a purpose: the first word of what is hashed into a stream's key.
enum class Purpose : uint64_t { kInit = 1, kData = 2, kDropout = 3 };

uint64_t Hash(std::array<uint64_t, 3> words) { return XXH3_64bits(words.data(), sizeof(words)); }

}  // namespace

double RandomStream::Normal(uint64_t index) const {
  const PhiloxBlock block = Block(index);
  const uint64_t a = block[0] | uint64_t{block[1]} << 32;
  // In (0, 1], so that the logarithm is finite.
  const double radius = static_cast<double>((a >> 11) + 1) * 0x1p-53;
  const double angle = static_cast<double>(block[2]) * 0x1p-32;
  return std::sqrt(-2 * std::log(radius)) * std::cos(2 * std::numbers::pi * angle);
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
