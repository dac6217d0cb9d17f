// Rows of a table by index, and the transposed scatter.
//
// A rank holds rows [first_row, first_row + table rows) of the global table; indices outside give
// zero rows forward and nothing backward (the vocabulary-parallel mask). Shapes:   ids i64 [B, S],
// table [R, H] -> [S, B, H]. Numerics: the gradient adds rows in ascending (s, b) order;
// of bf16 and f16 in f32, rounded once.
#ifndef PLUMBLINE_KERNELS_EMBEDDING_H_
#define PLUMBLINE_KERNELS_EMBEDDING_H_

#include <cstdint>

#include "base/context.h"
#include "base/tensor.h"

namespace plumbline {

Tensor EmbeddingForward(const Context& context, const Tensor& ids, const Tensor& table,
                        int64_t first_row);
// dy [S, B, H] -> [rows, H].
Tensor EmbeddingBackward(const Context& context, const Tensor& dy, const Tensor& ids, int64_t rows,
                         int64_t first_row);

}  // namespace plumbline

#endif  // PLUMBLINE_KERNELS_EMBEDDING_H_
