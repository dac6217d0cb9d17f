// The one matrix product under matmul.h: C = A B with one chain per element of C.
//
// Shapes:   A [M, K] and B [K, N] with any strides, C [M, N] with adjacent columns.
// Numerics: c = 0; for k ascending: c = MultiplyAdd(a_k, b_k, c). Blocking over k keeps the chain:
// a partial result
//           rests in C between blocks. The vector and the scalar path give the same bits.
#ifndef PLUMBLINE_KERNELS_HOST_GEMM_H_
#define PLUMBLINE_KERNELS_HOST_GEMM_H_

#include <cstdint>

#include "base/field.h"

namespace plumbline::host {

// Element (i, j) lies at data[i * row_stride + j * column_stride].
template <class T>
struct MatrixView {
  const T* data;
  int64_t row_stride;
  int64_t column_stride;
};

struct GemmSize {
  int64_t m;
  int64_t n;
  int64_t k;
};

template <class T>
void Gemm(const GemmSize& size, const MatrixView<T>& a, const MatrixView<T>& b, T* c,
          int64_t c_stride);

extern template void Gemm<float>(const GemmSize&, const MatrixView<float>&,
                                 const MatrixView<float>&, float*, int64_t);
extern template void Gemm<double>(const GemmSize&, const MatrixView<double>&,
                                  const MatrixView<double>&, double*, int64_t);

// Over prime fields, in kernels/host/field_gemm.cc: the order of the sum does not matter there.
template <>
void Gemm<M61>(const GemmSize& size, const MatrixView<M61>& a, const MatrixView<M61>& b, M61* c,
               int64_t c_stride);
template <>
void Gemm<P50>(const GemmSize& size, const MatrixView<P50>& a, const MatrixView<P50>& b, P50* c,
               int64_t c_stride);
template <>
void Gemm<P31>(const GemmSize& size, const MatrixView<P31>& a, const MatrixView<P31>& b, P31* c,
               int64_t c_stride);

}  // namespace plumbline::host

#endif  // PLUMBLINE_KERNELS_HOST_GEMM_H_
