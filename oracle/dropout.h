// Dropout: y = x keep / (1 - p); the backward is the same operator on dy.
//
// Whether an element is kept is a function of (seed, step, site, global sample, global index), so
// that every layout drops the same elements. Index of an element of a sample's [S, H] tensor:
// position * H + column; of its [A, S, S] attention probabilities: (head * S + query) * S + key.
//
// Numerics: 1 / (1 - p) is computed in the scalar.
// Source:   Srivastava et al. 2014, in the inverted form.
#ifndef PLUMBLINE_ORACLE_DROPOUT_H_
#define PLUMBLINE_ORACLE_DROPOUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/scalar.h"
#include "oracle/matrix.h"

namespace plumbline {

// 1 where kept, 0 where dropped. Without elements: everything is kept, nothing is scaled.
using KeepMask = Matrix<uint8_t>;

// What one microbatch's dropouts are keyed by, beside their probability and site.
struct DropoutKeys {
  uint64_t seed = 0;
  int64_t step = 0;
  std::vector<int64_t> samples;  // global number of each of the B samples
};

// Mask of hidden activations [S B, H] at `site` ("decoder.layers.3.mlp_bda.dropout").
KeepMask HiddenKeepMask(const DropoutKeys& keys, const std::string& site, double probability,
                        int64_t sequence, int64_t hidden);

// Masks of attention probabilities [S, S], one for each sample and head (sample * heads + head).
// Only keys at or before the query are drawn; empty when the probability is 0.
std::vector<KeepMask> AttentionKeepMasks(const DropoutKeys& keys, const std::string& site,
                                         double probability, int64_t heads, int64_t sequence);

template <class T>
void ApplyDropout(const KeepMask& keep, double probability, Matrix<T>& x) {
  if (keep.size() == 0) return;
  using Scalar = ScalarTraits<T>;
  const T zero = Scalar::FromInt(0);
  const T scale = Scalar::FromInt(1) / (Scalar::FromInt(1) - Scalar::FromDouble(probability));
  const uint8_t* kept = keep.data();
  T* value = x.data();
  for (Eigen::Index i = 0; i < x.size(); ++i) value[i] = kept[i] != 0 ? T(value[i] * scale) : zero;
}

}  // namespace plumbline

#endif  // PLUMBLINE_ORACLE_DROPOUT_H_
