// Element-wise operators and reductions. Inputs may have any strides unless said; results are fresh
// and row-major.
//
// Numerics: bf16 and f16 are computed in f32 and rounded once per stored element.
#ifndef PLUMBLINE_KERNELS_ELEMENTWISE_H_
#define PLUMBLINE_KERNELS_ELEMENTWISE_H_

#include <cstdint>

#include "base/context.h"
#include "base/tensor.h"

namespace plumbline {

// a + b, same shape.
Tensor Add(const Context& context, const Tensor& a, const Tensor& b);
// a - b, same shape.
Tensor Subtract(const Context& context, const Tensor& a, const Tensor& b);
// target += source, in place, same shape; target may be any view. A bf16 or f16 source may go into
// an f32 target, which rounds each sum once, to f32.
void AddInto(const Context& context, Tensor& target, const Tensor& source);
// x + bias over the last dimension.                                              [..., N], [N] ->
// [..., N]
Tensor AddBias(const Context& context, const Tensor& x, const Tensor& bias);
// Sum over all dimensions but the last, rows in ascending order.                 [..., N] -> [N]
Tensor SumRows(const Context& context, const Tensor& x);

// In place, in the scalar of x: x * factor for a literal; x / n; x / divisor and x * factor for a
// 0-d tensor (f32 where x is bf16 or f16).
void ScaleInto(const Context& context, Tensor& x, double factor);
void DivideInto(const Context& context, Tensor& x, int64_t n);
void DivideInto(const Context& context, Tensor& x, const Tensor& divisor);
void MultiplyInto(const Context& context, Tensor& x, const Tensor& factor);

// Sum of all elements, and of their squares, ascending row-major order -> 0-d tensor of x's dtype,
// f32 where that is bf16 or f16.
Tensor Sum(const Context& context, const Tensor& x);
Tensor SumOfSquares(const Context& context, const Tensor& x);
// 0-d square root.
Tensor SquareRoot(const Context& context, const Tensor& x);
// 0-d min(1, max_norm / (norm + 1e-6)).
Tensor ClipCoefficient(const Context& context, const Tensor& norm, double max_norm);
// Elements that are NaN or infinite.
int64_t CountNonFinite(const Tensor& x);

// Conversion between f64, f32, bf16 and f16, rounding once (f64 to 16 bits not by way of f32); to a
// field the exact value of each float, as for a mask of 0 and 1.
Tensor Cast(const Context& context, const Tensor& x, DType dtype);

}  // namespace plumbline

#endif  // PLUMBLINE_KERNELS_ELEMENTWISE_H_
