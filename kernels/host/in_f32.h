// How every operator takes bf16 and f16: the operands are widened to f32, which is exact, the f32
// operator runs on them, and each result that is stored in 16 bits is rounded, once.
//
//   if (const host::InF32 f32(context, x.dtype()); f32.needed()) {
//     return f32.Round(Add(f32.context(), f32.Widen(x), f32.Widen(y)));
//   }
#ifndef PLUMBLINE_KERNELS_HOST_IN_F32_H_
#define PLUMBLINE_KERNELS_HOST_IN_F32_H_

#include "base/context.h"
#include "base/dtype.h"
#include "base/tensor.h"

namespace plumbline::host {

// to = from between real dtypes, rounding once; same shape, any strides.
void Convert(const Tensor& from, Tensor& to);

class InF32 {
 public:
  InF32(const Context& context, DType dtype) : context_(context), dtype_(dtype) {
    widened_.allocator = nullptr;
  }

  bool needed() const { return IsHalf(dtype_); }
  // For the f32 operator. What it allocates a device would hold in registers: it does not count as
  // the rank's memory.
  const Context& context() const { return widened_; }

  // A bf16 or f16 tensor as f32; any other, and an undefined one, as it is.
  Tensor Widen(const Tensor& x) const;
  // Results, in the rank's memory: rounded to the dtype, or as f32 where the operator says so.
  Tensor Round(const Tensor& result) const;
  Tensor Keep(const Tensor& result) const;
  // Writes back what an operator changed in Widen(target).
  void RoundInto(Tensor& target, const Tensor& result) const;

 private:
  const Context& context_;
  Context widened_ = context_;
  DType dtype_;
};

}  // namespace plumbline::host

#endif  // PLUMBLINE_KERNELS_HOST_IN_F32_H_
