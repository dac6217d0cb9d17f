// The matrix product over prime fields: wide sums, reduced seldom.
//
// Addition in a field has no rounding, so that any order of the sum gives the same residue; what
// counts is how many products fit an accumulator before it must be reduced.
#include <immintrin.h>

#include <algorithm>
#include <vector>

#include "base/field.h"
#include "kernels/host/gemm.h"

namespace plumbline::host {
namespace {

using uint128 = unsigned __int128;

// Columns of B are packed kColumns at a time, depth first: panel[p][j]; missing columns are 0.
template <class T>
void PackColumns(int64_t depth, int64_t columns, int64_t width, const MatrixView<T>& b, T* panel) {
  for (int64_t p = 0; p < depth; ++p) {
    for (int64_t j = 0; j < width; ++j) {
      panel[p * width + j] = j < columns ? b.data[p * b.row_stride + j * b.column_stride] : T{0};
    }
  }
}

// Rows of A, depth first: block[p][r]; missing rows are 0.
template <class T>
void PackRows(int64_t depth, int64_t rows, int64_t width, const MatrixView<T>& a, T* block) {
  PackColumns<T>(depth, rows, width, {a.data, a.column_stride, a.row_stride}, block);
}

// C[2, 2] = A[2, depth] B[depth, 2] in four 128-bit sums.
template <class T>
void BlockOf2x2(int64_t depth, const T* a, const T* b, T out[4]) {
  out[0] = out[1] = out[2] = out[3] = T{0};
  for (int64_t begin = 0; begin < depth; begin += T::kLazyTerms - 1) {
    const int64_t end = std::min(depth, begin + T::kLazyTerms - 1);
    // The last reduction's residue takes the place of one product.
    uint128 sum[4] = {out[0].v, out[1].v, out[2].v, out[3].v};
    for (int64_t p = begin; p < end; ++p) {
      const uint128 a0 = a[2 * p].v;
      const uint128 a1 = a[2 * p + 1].v;
      const uint64_t b0 = b[2 * p].v;
      const uint64_t b1 = b[2 * p + 1].v;
      sum[0] += a0 * b0;
      sum[1] += a0 * b1;
      sum[2] += a1 * b0;
      sum[3] += a1 * b1;
    }
    for (int i = 0; i < 4; ++i) out[i] = T::Reduce(sum[i]);
  }
}

template <class T>
void GemmWide(const GemmSize& size, const MatrixView<T>& a, const MatrixView<T>& b, T* c,
              int64_t c_stride) {
  const int64_t column_pairs = (size.n + 1) / 2;
  std::vector<T> panels(static_cast<size_t>(column_pairs * 2 * size.k));
  for (int64_t j = 0; j < column_pairs; ++j) {
    const MatrixView<T> view = {b.data + 2 * j * b.column_stride, b.row_stride, b.column_stride};
    PackColumns<T>(size.k, std::min<int64_t>(2, size.n - 2 * j), 2, view,
                   panels.data() + j * 2 * size.k);
  }
  std::vector<T> rows(static_cast<size_t>(2 * size.k));
  for (int64_t i = 0; i < size.m; i += 2) {
    const int64_t height = std::min<int64_t>(2, size.m - i);
    PackRows<T>(size.k, height, 2, {a.data + i * a.row_stride, a.row_stride, a.column_stride},
                rows.data());
    for (int64_t j = 0; j < size.n; j += 2) {
      T out[4];
      BlockOf2x2<T>(size.k, rows.data(), panels.data() + j * size.k, out);
      const int64_t width = std::min<int64_t>(2, size.n - j);
      for (int64_t r = 0; r < height; ++r)
        std::copy_n(out + 2 * r, width, c + (i + r) * c_stride + j);
    }
  }
}

#if defined(__AVX2__)

// A residue a is a1 * 2^31 + a0; a product then has the parts a0 b0, a0 b1 + a1 b0 (times 2^31) and
// a1 b1 (times 2^62, which is 2 modulo M61). Four products fit each part's 64 bits.
constexpr int kM61Lanes = 4;
constexpr int kM61Rows = 2;
constexpr uint64_t kLowBits = (uint64_t{1} << 31) - 1;

struct M61Parts {
  __m256i low, middle, high;
};

inline __m256i Fold(__m256i x) {
  const __m256i mask = _mm256_set1_epi64x(static_cast<int64_t>(field_internal::kM61));
  return _mm256_add_epi64(_mm256_and_si256(x, mask), _mm256_srli_epi64(x, 61));
}

// total + parts, below 2^61 + 8.
inline __m256i Gather(__m256i total, const M61Parts& parts) {
  const __m256i middle_low = _mm256_and_si256(parts.middle, _mm256_set1_epi64x((1 << 30) - 1));
  const __m256i middle =
      _mm256_add_epi64(_mm256_srli_epi64(parts.middle, 30), _mm256_slli_epi64(middle_low, 31));
  const __m256i high = Fold(_mm256_add_epi64(parts.high, parts.high));
  total =
      _mm256_add_epi64(_mm256_add_epi64(total, Fold(parts.low)), _mm256_add_epi64(middle, high));
  return Fold(total);
}

// C[2, 4] = A[2, depth] B[depth, 4]; both packed, low parts and high parts apart: a[p][low 2, high
// 2], b[p][low 4, high 4].
inline void BlockOf2x4(int64_t depth, const uint64_t* a, const uint64_t* b, M61* out) {
  __m256i total[kM61Rows] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
  for (int64_t begin = 0; begin < depth; begin += 4) {
    const int64_t end = std::min<int64_t>(depth, begin + 4);
    M61Parts parts[kM61Rows];
    for (M61Parts& row : parts) row.low = row.middle = row.high = _mm256_setzero_si256();
    for (int64_t p = begin; p < end; ++p) {
      const __m256i b0 =
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + p * 2 * kM61Lanes));
      const __m256i b1 =
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + p * 2 * kM61Lanes + kM61Lanes));
#pragma GCC unroll 2
      for (int r = 0; r < kM61Rows; ++r) {
        const __m256i a0 = _mm256_set1_epi64x(static_cast<int64_t>(a[p * 2 * kM61Rows + r]));
        const __m256i a1 =
            _mm256_set1_epi64x(static_cast<int64_t>(a[p * 2 * kM61Rows + kM61Rows + r]));
        M61Parts& row = parts[r];
        row.low = _mm256_add_epi64(row.low, _mm256_mul_epu32(a0, b0));
        row.middle = _mm256_add_epi64(
            row.middle, _mm256_add_epi64(_mm256_mul_epu32(a0, b1), _mm256_mul_epu32(a1, b0)));
        row.high = _mm256_add_epi64(row.high, _mm256_mul_epu32(a1, b1));
      }
    }
    for (int r = 0; r < kM61Rows; ++r) total[r] = Gather(total[r], parts[r]);
  }
  for (int r = 0; r < kM61Rows; ++r) {
    alignas(32) uint64_t sums[kM61Lanes];
    _mm256_store_si256(reinterpret_cast<__m256i*>(sums), total[r]);
    for (int j = 0; j < kM61Lanes; ++j) out[r * kM61Lanes + j] = M61::Reduce(sums[j]);
  }
}

// packed[p][0..width) low parts, then as many high parts.
void PackParts(int64_t depth, int64_t columns, int64_t width, const MatrixView<M61>& x,
               uint64_t* packed) {
  for (int64_t p = 0; p < depth; ++p) {
    uint64_t* to = packed + p * 2 * width;
    for (int64_t j = 0; j < width; ++j) {
      const uint64_t v = j < columns ? x.data[p * x.row_stride + j * x.column_stride].v : 0;
      to[j] = v & kLowBits;
      to[width + j] = v >> 31;
    }
  }
}

void GemmM61(const GemmSize& size, const MatrixView<M61>& a, const MatrixView<M61>& b, M61* c,
             int64_t c_stride) {
  const int64_t panels_wide = (size.n + kM61Lanes - 1) / kM61Lanes;
  std::vector<uint64_t> panels(static_cast<size_t>(panels_wide * 2 * kM61Lanes * size.k));
  for (int64_t j = 0; j < size.n; j += kM61Lanes) {
    const MatrixView<M61> view = {b.data + j * b.column_stride, b.row_stride, b.column_stride};
    PackParts(size.k, std::min<int64_t>(kM61Lanes, size.n - j), kM61Lanes, view,
              panels.data() + 2 * j * size.k);
  }
  std::vector<uint64_t> rows(static_cast<size_t>(2 * kM61Rows * size.k));
  for (int64_t i = 0; i < size.m; i += kM61Rows) {
    const int64_t height = std::min<int64_t>(kM61Rows, size.m - i);
    PackParts(size.k, height, kM61Rows, {a.data + i * a.row_stride, a.column_stride, a.row_stride},
              rows.data());
    for (int64_t j = 0; j < size.n; j += kM61Lanes) {
      M61 out[kM61Rows * kM61Lanes];
      BlockOf2x4(size.k, rows.data(), panels.data() + 2 * j * size.k, out);
      const int64_t width = std::min<int64_t>(kM61Lanes, size.n - j);
      for (int64_t r = 0; r < height; ++r)
        std::copy_n(out + r * kM61Lanes, width, c + (i + r) * c_stride + j);
    }
  }
}

#endif

#if defined(__x86_64__)

constexpr int kIfmaLanes = 8;
constexpr int kIfmaRows = 4;

// C[4, 8] = A[4, depth] B[depth, 8] modulo P50: the low and the high 52 bits of each product add up
// apart, 4096 of them at most.
__attribute__((target("avx512f,avx512ifma"))) void BlockOf4x8(int64_t depth, const P50* a,
                                                              const P50* b, P50* out) {
  constexpr int64_t kTerms = 4096;
  std::fill_n(out, kIfmaRows * kIfmaLanes, P50{0});
  for (int64_t begin = 0; begin < depth; begin += kTerms) {
    const int64_t end = std::min(depth, begin + kTerms);
    __m512i low[kIfmaRows];
    __m512i high[kIfmaRows];
    for (int r = 0; r < kIfmaRows; ++r) low[r] = high[r] = _mm512_setzero_si512();
    for (int64_t p = begin; p < end; ++p) {
      const __m512i column = _mm512_loadu_si512(b + p * kIfmaLanes);
#pragma GCC unroll 4
      for (int r = 0; r < kIfmaRows; ++r) {
        const __m512i row = _mm512_set1_epi64(static_cast<int64_t>(a[p * kIfmaRows + r].v));
        low[r] = _mm512_madd52lo_epu64(low[r], row, column);
        high[r] = _mm512_madd52hi_epu64(high[r], row, column);
      }
    }
    for (int r = 0; r < kIfmaRows; ++r) {
      alignas(64) uint64_t low_sum[kIfmaLanes];
      alignas(64) uint64_t high_sum[kIfmaLanes];
      _mm512_store_si512(low_sum, low[r]);
      _mm512_store_si512(high_sum, high[r]);
      for (int j = 0; j < kIfmaLanes; ++j) {
        const uint128 sum = (static_cast<uint128>(high_sum[j]) << 52) + low_sum[j];
        out[r * kIfmaLanes + j] = out[r * kIfmaLanes + j] + P50::Reduce(sum);
      }
    }
  }
}

void GemmIfma(const GemmSize& size, const MatrixView<P50>& a, const MatrixView<P50>& b, P50* c,
              int64_t c_stride) {
  const int64_t panels_wide = (size.n + kIfmaLanes - 1) / kIfmaLanes;
  std::vector<P50> panels(static_cast<size_t>(panels_wide * kIfmaLanes * size.k));
  for (int64_t j = 0; j < size.n; j += kIfmaLanes) {
    const MatrixView<P50> view = {b.data + j * b.column_stride, b.row_stride, b.column_stride};
    PackColumns<P50>(size.k, std::min<int64_t>(kIfmaLanes, size.n - j), kIfmaLanes, view,
                     panels.data() + j * size.k);
  }
  std::vector<P50> rows(static_cast<size_t>(kIfmaRows * size.k));
  for (int64_t i = 0; i < size.m; i += kIfmaRows) {
    const int64_t height = std::min<int64_t>(kIfmaRows, size.m - i);
    PackRows<P50>(size.k, height, kIfmaRows,
                  {a.data + i * a.row_stride, a.row_stride, a.column_stride}, rows.data());
    for (int64_t j = 0; j < size.n; j += kIfmaLanes) {
      P50 out[kIfmaRows * kIfmaLanes];
      BlockOf4x8(size.k, rows.data(), panels.data() + j * size.k, out);
      const int64_t width = std::min<int64_t>(kIfmaLanes, size.n - j);
      for (int64_t r = 0; r < height; ++r)
        std::copy_n(out + r * kIfmaLanes, width, c + (i + r) * c_stride + j);
    }
  }
}

bool HasIfma() {
  static const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512ifma");
  return has;
}

#endif

}  // namespace

template <>
void Gemm<M61>(const GemmSize& size, const MatrixView<M61>& a, const MatrixView<M61>& b, M61* c,
               int64_t c_stride) {
#if defined(__AVX2__)
  GemmM61(size, a, b, c, c_stride);
#else
  GemmWide<M61>(size, a, b, c, c_stride);
#endif
}

template <>
void Gemm<P50>(const GemmSize& size, const MatrixView<P50>& a, const MatrixView<P50>& b, P50* c,
               int64_t c_stride) {
#if defined(__x86_64__)
  if (HasIfma()) return GemmIfma(size, a, b, c, c_stride);
#endif
  GemmWide<P50>(size, a, b, c, c_stride);
}

template <>
void Gemm<P31>(const GemmSize& size, const MatrixView<P31>& a, const MatrixView<P31>& b, P31* c,
               int64_t c_stride) {
  GemmWide<P31>(size, a, b, c, c_stride);
}

}  // namespace plumbline::host
