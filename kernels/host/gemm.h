// The one matrix product under matmul.h: C = A B with one chain per element of C.
//
// Shapes:   A [M, K] and B [K, N] with any strides, C [M, N] with adjacent columns.
// Numerics: c = 0; for k ascending: c = MultiplyAdd(a_k, b_k, c). Blocking over k keeps the chain:
// a partial result
//           rests in C between blocks. The vector and the scalar path give the same bits.
#ifndef PLUMBLINE_KERNELS_HOST_GEMM_H_
#define PLUMBLINE_KERNELS_HOST_GEMM_H_

#include <cstdint>

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

}  // namespace plumbline::host

#endif  // PLUMBLINE_KERNELS_HOST_GEMM_H_
