// Which elements one sample's dropout keeps, and the factor that the kept ones get.
//
// Numerics: 1 / (1 - p) is computed in the scalar.
#ifndef PLUMBLINE_KERNELS_HOST_KEEP_MASK_H_
#define PLUMBLINE_KERNELS_HOST_KEEP_MASK_H_

#include <cstdint>
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

  // The word of `index` decides.
  bool Keeps(uint64_t index) const { return stream_.Bits(index) < threshold_; }

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
