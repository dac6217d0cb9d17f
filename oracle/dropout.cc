#include "oracle/dropout.h"

#include "base/rng.h"

namespace plumbline {
namespace {

// Whether each of the elements from `first` on is kept.
void FillKept(const RandomStream& stream, uint64_t threshold, int64_t first,
              std::vector<uint64_t>& words, uint8_t* kept) {
  stream.FillBits(static_cast<uint64_t>(first), words);
  for (size_t i = 0; i < words.size(); ++i) kept[i] = words[i] < threshold ? 1 : 0;
}

}  // namespace

KeepMask HiddenKeepMask(const DropoutKeys& keys, const std::string& site, double probability,
                        int64_t sequence, int64_t hidden) {
  if (probability == 0) return {};
  const uint64_t threshold = KeepThreshold(probability);
  const uint64_t site_hash = HashOfName(site);
  const auto batch = static_cast<int64_t>(keys.samples.size());
  KeepMask keep(sequence * batch, hidden);
  std::vector<uint64_t> words(static_cast<size_t>(hidden));
  for (int64_t b = 0; b < batch; ++b) {
    const RandomStream stream =
        DropoutStream(keys.seed, keys.step, site_hash, keys.samples[static_cast<size_t>(b)]);
    for (int64_t s = 0; s < sequence; ++s) {
      FillKept(stream, threshold, s * hidden, words, &keep(s * batch + b, 0));
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
  std::vector<uint64_t> words;
  for (int64_t sample : keys.samples) {
    const RandomStream stream = DropoutStream(keys.seed, keys.step, site_hash, sample);
    for (int64_t head = 0; head < heads; ++head) {
      KeepMask keep = KeepMask::Zero(sequence, sequence);
      for (int64_t query = 0; query < sequence; ++query) {
        const int64_t row = (head * sequence + query) * sequence;
        words.resize(static_cast<size_t>(query + 1));
        FillKept(stream, threshold, row, words, &keep(query, 0));
      }
      masks.push_back(std::move(keep));
    }
  }
  return masks;
}

}  // namespace plumbline
