// A register of scalars, where the target has one: AVX2 and FMA for f32 and f64. Private to
// kernels/host.
#ifndef PLUMBLINE_KERNELS_HOST_SIMD_H_
#define PLUMBLINE_KERNELS_HOST_SIMD_H_

#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#endif

#include <cstdint>

namespace plumbline::host {

template <class T>
struct Simd {
  static constexpr bool kAvailable = false;
};

#if defined(__AVX2__) && defined(__FMA__)

template <>
struct Simd<float> {
  static constexpr bool kAvailable = true;
  static constexpr int kLanes = 8;
  using Register = __m256;

  static Register Zero() { return _mm256_setzero_ps(); }
  static Register Load(const float* p) { return _mm256_loadu_ps(p); }
  static void Store(float* p, Register r) { _mm256_storeu_ps(p, r); }
  static Register Broadcast(const float* p) { return _mm256_broadcast_ss(p); }
  static Register MultiplyAdd(Register a, Register b, Register c) {
    return _mm256_fmadd_ps(a, b, c);
  }

  // to[i * to_stride + j] = from[j * from_stride + i] for i, j < kLanes.
  static void Transpose(const float* from, int64_t from_stride, float* to, int64_t to_stride) {
    Register row[8];
    // Pairs of rows four apart share a register, so that only shuffles within 128 bits remain.
    for (int j = 0; j < 4; ++j) {
      for (int half = 0; half < 2; ++half) {
        const __m128 low = _mm_loadu_ps(from + j * from_stride + 4 * half);
        const __m128 high = _mm_loadu_ps(from + (j + 4) * from_stride + 4 * half);
        row[4 * half + j] = _mm256_insertf128_ps(_mm256_castps128_ps256(low), high, 1);
      }
    }
    for (int half = 0; half < 2; ++half) {
      const Register* r = row + 4 * half;
      const Register ab_low = _mm256_unpacklo_ps(r[0], r[1]);
      const Register ab_high = _mm256_unpackhi_ps(r[0], r[1]);
      const Register cd_low = _mm256_unpacklo_ps(r[2], r[3]);
      const Register cd_high = _mm256_unpackhi_ps(r[2], r[3]);
      float* out = to + 4 * half * to_stride;
      Store(out, _mm256_shuffle_ps(ab_low, cd_low, 0x44));
      Store(out + to_stride, _mm256_shuffle_ps(ab_low, cd_low, 0xEE));
      Store(out + 2 * to_stride, _mm256_shuffle_ps(ab_high, cd_high, 0x44));
      Store(out + 3 * to_stride, _mm256_shuffle_ps(ab_high, cd_high, 0xEE));
    }
  }
};

template <>
struct Simd<double> {
  static constexpr bool kAvailable = true;
  static constexpr int kLanes = 4;
  using Register = __m256d;

  static Register Zero() { return _mm256_setzero_pd(); }
  static Register Load(const double* p) { return _mm256_loadu_pd(p); }
  static void Store(double* p, Register r) { _mm256_storeu_pd(p, r); }
  static Register Broadcast(const double* p) { return _mm256_broadcast_sd(p); }
  static Register MultiplyAdd(Register a, Register b, Register c) {
    return _mm256_fmadd_pd(a, b, c);
  }

  static void Transpose(const double* from, int64_t from_stride, double* to, int64_t to_stride) {
    Register row[4];
    for (int j = 0; j < 2; ++j) {
      for (int half = 0; half < 2; ++half) {
        const __m128d low = _mm_loadu_pd(from + j * from_stride + 2 * half);
        const __m128d high = _mm_loadu_pd(from + (j + 2) * from_stride + 2 * half);
        row[2 * half + j] = _mm256_insertf128_pd(_mm256_castpd128_pd256(low), high, 1);
      }
    }
    for (int half = 0; half < 2; ++half) {
      const Register* r = row + 2 * half;
      double* out = to + 2 * half * to_stride;
      Store(out, _mm256_unpacklo_pd(r[0], r[1]));
      Store(out + to_stride, _mm256_unpackhi_pd(r[0], r[1]));
    }
  }
};

#endif  // AVX2 and FMA

}  // namespace plumbline::host

#endif  // PLUMBLINE_KERNELS_HOST_SIMD_H_
