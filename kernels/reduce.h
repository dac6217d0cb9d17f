// The arithmetic of reducing collectives: target = target (op) source over raw payloads.
//
// Numerics: one addition (or maximum) per element in the tensor's dtype, in the order in which the
//           calls come. So every addition of bf16 and f16 rounds, as NCCL's do, and an average
//           rounds once more; NCCL multiplies each source by 1/n first.
#ifndef PLUMBLINE_KERNELS_REDUCE_H_
#define PLUMBLINE_KERNELS_REDUCE_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "base/tensor.h"

namespace plumbline {

// `kAvg` sums and then divides by the group's size.
enum class ReduceOp : uint8_t { kSum, kAvg, kMax, kMin };
std::string_view Name(ReduceOp op);

// result[i] = reduction over sources[0][i], sources[1][i], ... in this order. All contiguous, one
// dtype and size; the result may be one of the sources only when it is written after all were read
// (element by element: yes). i64 has no kAvg.
void Reduce(ReduceOp op, std::span<const Tensor* const> sources, Tensor& result);

}  // namespace plumbline

#endif  // PLUMBLINE_KERNELS_REDUCE_H_
