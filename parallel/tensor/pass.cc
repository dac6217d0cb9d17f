#include "parallel/tensor/pass.h"

#include "kernels/elementwise.h"

namespace plumbline {
namespace {

// [B, S] -> [S * B].
Tensor SequenceFirst(const Context& context, const Tensor& x) {
  return x.Transpose(0, 1).Contiguous(context).View({-1});
}

// The mask is data, 0 or 1: counting it is integer arithmetic.
int64_t CountLabels(const Tensor& mask) {
  int64_t count = 0;
  for (double keep : mask.ToVector<double>()) count += keep != 0 ? 1 : 0;
  return count;
}

}  // namespace

Microbatch MakeMicrobatch(const Context& context, Batch batch, DType dtype, bool packed) {
  Microbatch result;
  if (batch.labels.defined()) {
    result.targets = SequenceFirst(context, batch.labels);
    result.loss_mask = Cast(context, SequenceFirst(context, batch.loss_mask), dtype);
    result.label_count = CountLabels(batch.loss_mask);
  }
  result.packed = packed;
  result.batch = std::move(batch);
  return result;
}

}  // namespace plumbline
