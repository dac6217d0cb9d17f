// Dropout whose mask is a function of (seed, step, site, sample, global index), so that it does not
// depend on the layout.
//
// y = x * keep / (1 - p). The backward is the same operator on dy.
//
// Shapes:   x [S_local, B, H_local]: a rectangle of each sample's global [S, H] tensor.
// Numerics: 1 / (1 - p) is computed in the scalar; for bf16 and f16 in f32, and the product
// rounded.
#ifndef PLUMBLINE_KERNELS_DROPOUT_H_
#define PLUMBLINE_KERNELS_DROPOUT_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/context.h"
#include "base/tensor.h"

namespace plumbline {

// Which random words a dropout reads.
struct DropoutKey {
  double probability = 0;  // 0: the operator is the identity
  uint64_t seed = 0;
  int64_t step = 0;
  uint64_t site_hash = 0;        // HashOfName("decoder.layers.3.mlp.dropout")
  std::vector<int64_t> samples;  // global sample number of each batch row
};

// `rows` are the global sequence positions of the local rows; columns are [first_column,
// first_column + H_local) of `global_columns`. The word of an element has index row *
// global_columns + column.
Tensor Dropout(const Context& context, const Tensor& x, const DropoutKey& key,
               std::span<const int64_t> rows, int64_t first_column, int64_t global_columns);

}  // namespace plumbline

#endif  // PLUMBLINE_KERNELS_DROPOUT_H_
