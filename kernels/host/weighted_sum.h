// Sums of weighted rows: the inner loop of attention beside its two products of rows.
//
// Numerics: out[d] = MultiplyAdd(weight_r, x(r, d), out[d]) for r ascending over the runs: one
// chain per element, which
//           continues what is in `out`. Rows outside the runs are not read.
#ifndef PLUMBLINE_KERNELS_HOST_WEIGHTED_SUM_H_
#define PLUMBLINE_KERNELS_HOST_WEIGHTED_SUM_H_

#include <algorithm>
#include <cstdint>
#include <span>

#include "kernels/host/common.h"
#include "kernels/host/simd.h"

namespace plumbline::host {

// Indices [begin, end).
struct Run {
  int64_t begin;
  int64_t end;
};

// Element d of row r lies at data[(r - first) * stride + d]; the weight of row r likewise.
template <class T>
struct WeightedRows {
  const T* weights;
  int64_t weight_stride;
  const T* rows;
  int64_t row_stride;
  Run within;  // rows that exist here; the first of them is at `weights` and `rows`
};

// The first kRegisters registers' worth of channels, which stay in registers over all rows.
template <class T, int kRegisters>
inline void AddWeightedRegisters(std::span<const Run> runs, const WeightedRows<T>& x, T* out) {
  using S = Simd<T>;
  typename S::Register sum[kRegisters];
#pragma GCC unroll 8
  for (int c = 0; c < kRegisters; ++c) sum[c] = S::Load(out + c * S::kLanes);
  for (const Run& run : runs) {
    const int64_t end = std::min(run.end, x.within.end) - x.within.begin;
    for (int64_t r = std::max(run.begin, x.within.begin) - x.within.begin; r < end; ++r) {
      const typename S::Register weight = S::Broadcast(x.weights + r * x.weight_stride);
      const T* row = x.rows + r * x.row_stride;
#pragma GCC unroll 8
      for (int c = 0; c < kRegisters; ++c) {
        sum[c] = S::MultiplyAdd(weight, S::Load(row + c * S::kLanes), sum[c]);
      }
    }
  }
#pragma GCC unroll 8
  for (int c = 0; c < kRegisters; ++c) S::Store(out + c * S::kLanes, sum[c]);
}

template <class T>
inline void AddWeightedScalars(std::span<const Run> runs, const WeightedRows<T>& x,
                               int64_t channels, T* out) {
  for (const Run& run : runs) {
    const int64_t end = std::min(run.end, x.within.end) - x.within.begin;
    for (int64_t r = std::max(run.begin, x.within.begin) - x.within.begin; r < end; ++r) {
      const T weight = x.weights[r * x.weight_stride];
      const T* row = x.rows + r * x.row_stride;
      for (int64_t d = 0; d < channels; ++d) out[d] = MultiplyAdd(weight, row[d], out[d]);
    }
  }
}

template <class T>
void AddWeighted(std::span<const Run> runs, WeightedRows<T> x, int64_t channels, T* out) {
  if constexpr (Simd<T>::kAvailable) {
    const auto advance = [&](int64_t done) {
      channels -= done;
      x.rows += done;
      out += done;
    };
    constexpr int kLanes = Simd<T>::kLanes;
    for (; channels >= 8 * kLanes; advance(8 * kLanes)) AddWeightedRegisters<T, 8>(runs, x, out);
    for (; channels >= 4 * kLanes; advance(4 * kLanes)) AddWeightedRegisters<T, 4>(runs, x, out);
    for (; channels >= 2 * kLanes; advance(2 * kLanes)) AddWeightedRegisters<T, 2>(runs, x, out);
    for (; channels >= kLanes; advance(kLanes)) AddWeightedRegisters<T, 1>(runs, x, out);
  }
  if (channels > 0) AddWeightedScalars(runs, x, channels, out);
}

}  // namespace plumbline::host

#endif  // PLUMBLINE_KERNELS_HOST_WEIGHTED_SUM_H_
