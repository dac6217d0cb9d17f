// The three products of a linear layer y = x W^T.
//
// Shapes:   x [..., K], w [N, K], y and dy [..., N]; leading dimensions are flattened to M rows.
// Inputs may have any
//           strides; results are fresh and row-major.
// Numerics: each output element is one chain of (fused) multiply-adds in ascending order of the
// summed index, starting
//           from 0, whatever M, N and the blocking: splitting the rows or columns of a product
//           never changes a bit. f32 and f64 use std::fma semantics throughout.
//           bf16 and f16 are multiplied and summed in f32 and rounded once. A context's SumOrder
//           asks for another order.
// Errors:   InvalidArgument when the summed extents or the dtypes differ.
#ifndef PLUMBLINE_KERNELS_MATMUL_H_
#define PLUMBLINE_KERNELS_MATMUL_H_

#include "base/context.h"
#include "base/tensor.h"

namespace plumbline {

// y = x W^T: sums over K.                                                        [..., K], [N, K]
// -> [..., N]
Tensor MatmulNT(const Context& context, const Tensor& x, const Tensor& w);
// dx = dy W: sums over N.                                                        [..., N], [N, K]
// -> [..., K]
Tensor MatmulNN(const Context& context, const Tensor& dy, const Tensor& w);
// dW = dy^T x: sums over the M rows.                                             [..., N], [..., K]
// -> [N, K]
Tensor MatmulTN(const Context& context, const Tensor& dy, const Tensor& x);

}  // namespace plumbline

#endif  // PLUMBLINE_KERNELS_MATMUL_H_
