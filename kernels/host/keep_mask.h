// Which elements one sample's dropout keeps, and the factor that the kept ones get.
//
// Numerics: 1 / (1 - p) is computed in the scalar.
#ifndef PLUMBLINE_KERNELS_HOST_KEEP_MASK_H_
#define PLUMBLINE_KERNELS_HOST_KEEP_MASK_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/error.h"
#include "base/rng.h"
#include "base/scalar.h"
#include "kernels/dropout.h"

namespace plumbline::host {

class KeepMask {
 public:
  KeepMask(const DropoutKey& key, int64_t batch_row)
      : stream_(DropoutStream(key.seed, key.step, key.site_hash,
                              key.samples[static_cast<size_t>(batch_row)])),
        threshold_(KeepThreshold(key.probability)) {}

  // Calls f(i, kept) for i in [0, n): the word of index first + i decides.
  template <class F>
  void ForEach(uint64_t first, int64_t n, F f) const {
    constexpr int64_t kTogether = 64;
    std::array<uint64_t, kTogether> words;
    for (int64_t begin = 0; begin < n; begin += kTogether) {
      const int64_t count = std::min(kTogether, n - begin);
      stream_.FillBits(first + static_cast<uint64_t>(begin),
                       std::span(words).first(static_cast<size_t>(count)));
      for (int64_t i = 0; i < count; ++i) {
        f(begin + i, words[static_cast<size_t>(i)] < threshold_);
      }
    }
  }

 private:
  RandomStream stream_;
  uint64_t threshold_;
};

template <class T>
T KeptFactor(double probability) {
  using Traits = ScalarTraits<T>;
  return Traits::FromInt(1) / (Traits::FromInt(1) - Traits::FromDouble(probability));
}

// Whether the key drops anything; checks it against the batch.
inline bool Drops(std::string_view op, const DropoutKey& key, int64_t batch) {
  if (!(key.probability >= 0 && key.probability < 1)) {
    throw InvalidArgument("{}: dropout probability {}; expected [0, 1)", op, key.probability);
  }
  if (key.probability == 0) return false;
  if (static_cast<int64_t>(key.samples.size()) != batch) {
    throw InvalidArgument("{}: {} sample numbers for a batch of {}", op, key.samples.size(), batch);
  }
  return true;
}

}  // namespace plumbline::host

#endif  // PLUMBLINE_KERNELS_HOST_KEEP_MASK_H_
