#include "oracle/dropout.h"

#include "base/rng.h"

namespace plumbline {

KeepMask HiddenKeepMask(const DropoutKeys& keys, const std::string& site, double probability,
                        int64_t sequence, int64_t hidden) {
  if (probability == 0) return {};
  const uint64_t threshold = KeepThreshold(probability);
  const uint64_t site_hash = HashOfName(site);
  const auto batch = static_cast<int64_t>(keys.samples.size());
  KeepMask keep(sequence * batch, hidden);
  for (int64_t b = 0; b < batch; ++b) {
    const RandomStream stream =
        DropoutStream(keys.seed, keys.step, site_hash, keys.samples[static_cast<size_t>(b)]);
    for (int64_t s = 0; s < sequence; ++s) {
      for (int64_t h = 0; h < hidden; ++h) {
        keep(s * batch + b, h) = stream.Bits(static_cast<uint64_t>(s * hidden + h)) < threshold;
      }
    }
  }
  return keep;
}

std::vector<KeepMask> AttentionKeepMasks(const DropoutKeys& keys, const std::string& site,
                                         double probability, int64_t heads, int64_t sequence) {
  std::vector<KeepMask> masks;
  if (probability == 0) return masks;
  const uint64_t threshold = KeepThreshold(probability);
  const uint64_t site_hash = HashOfName(site);
  for (int64_t sample : keys.samples) {
    const RandomStream stream = DropoutStream(keys.seed, keys.step, site_hash, sample);
    for (int64_t head = 0; head < heads; ++head) {
      KeepMask keep = KeepMask::Zero(sequence, sequence);
      for (int64_t query = 0; query < sequence; ++query) {
        const int64_t row = (head * sequence + query) * sequence;
        for (int64_t key = 0; key <= query; ++key) {
          keep(query, key) = stream.Bits(static_cast<uint64_t>(row + key)) < threshold;
        }
      }
      masks.push_back(std::move(keep));
    }
  }
  return masks;
}

}  // namespace plumbline
