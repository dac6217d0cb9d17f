#include "kernels/host/gemm.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>

#include "base/scalar.h"
#include "kernels/host/common.h"
#include "kernels/host/simd.h"

namespace plumbline::host {
namespace {

// The register block: 6 rows by 2 registers leaves 12 accumulators, 2 registers of B and one
// broadcast of A, of the 16 that AVX2 has.
constexpr int kBlockRows = 6;

// The chain in plain scalars, for targets without vectors and for scalars without them.
template <class T>
void GemmScalar(const GemmSize& size, const MatrixView<T>& a, const MatrixView<T>& b, T* c,
                int64_t c_stride) {
  for (int64_t i = 0; i < size.m; ++i) {
    for (int64_t j = 0; j < size.n; ++j) {
      const T* pa = a.data + i * a.row_stride;
      const T* pb = b.data + j * b.column_stride;
      T sum = Zero<T>();
      for (int64_t p = 0; p < size.k; ++p) {
        sum = MultiplyAdd(pa[p * a.column_stride], pb[p * b.row_stride], sum);
      }
      c[i * c_stride + j] = sum;
    }
  }
}

template <class T>
struct Blocking {
  static constexpr int kLanes = Simd<T>::kLanes;
  static constexpr int kColumns = 2 * kLanes;
  // A panel of B (kDepth x kColumns, 16 KiB) stays in the first-level cache, a block of A (kRows x
  // kDepth, 96 KiB) in the second.
  static constexpr int64_t kDepth = 256;
  static constexpr int64_t kRows =
      16 * kBlockRows * static_cast<int64_t>(sizeof(float)) / static_cast<int64_t>(sizeof(T));
  static constexpr int64_t kWide = 512;  // columns of B packed at a time
};

// Working memory of one thread: an operator never yields to another rank in between. Small products
// use only its beginning.
template <class T>
class Scratch {
 public:
  using B = Blocking<T>;
  T* a_block() { return memory_.get(); }
  T* b_panels() { return memory_.get() + B::kRows * B::kDepth; }

 private:
  struct Free {
    void operator()(T* p) const { ::operator delete[](p, std::align_val_t(64)); }
  };
  std::unique_ptr<T, Free> memory_{static_cast<T*>(::operator new[](
      sizeof(T) * (B::kRows * B::kDepth + B::kDepth * B::kWide), std::align_val_t(64)))};
};

template <class T>
Scratch<T>& ThreadScratch() {
  static thread_local Scratch<T> scratch;
  return scratch;
}

// C[kR, kColumns] (+)= A[kR, depth] B[depth, kColumns]; `resume` continues the chains that rest in
// C.
template <class T, int kR>
inline void RegisterBlock(int64_t depth, MatrixView<T> a, const T* b, int64_t b_stride, T* c,
                          int64_t c_stride, bool resume) {
  using S = Simd<T>;
  typename S::Register sum[kR][2];
#pragma GCC unroll 8
  for (int r = 0; r < kR; ++r) {
    sum[r][0] = resume ? S::Load(c + r * c_stride) : S::Zero();
    sum[r][1] = resume ? S::Load(c + r * c_stride + S::kLanes) : S::Zero();
  }
  const T* pa = a.data;
  for (int64_t p = 0; p < depth; ++p) {
    const typename S::Register b0 = S::Load(b);
    const typename S::Register b1 = S::Load(b + S::kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kR; ++r) {
      const typename S::Register value = S::Broadcast(pa + r * a.row_stride);
      sum[r][0] = S::MultiplyAdd(value, b0, sum[r][0]);
      sum[r][1] = S::MultiplyAdd(value, b1, sum[r][1]);
    }
    pa += a.column_stride;
    b += b_stride;
  }
#pragma GCC unroll 8
  for (int r = 0; r < kR; ++r) {
    S::Store(c + r * c_stride, sum[r][0]);
    S::Store(c + r * c_stride + S::kLanes, sum[r][1]);
  }
}

template <class T>
void RegisterBlockOf(int64_t rows, int64_t depth, const MatrixView<T>& a, const T* b,
                     int64_t b_stride, T* c, int64_t c_stride, bool resume) {
  switch (rows) {
    case 1:
      return RegisterBlock<T, 1>(depth, a, b, b_stride, c, c_stride, resume);
    case 2:
      return RegisterBlock<T, 2>(depth, a, b, b_stride, c, c_stride, resume);
    case 3:
      return RegisterBlock<T, 3>(depth, a, b, b_stride, c, c_stride, resume);
    case 4:
      return RegisterBlock<T, 4>(depth, a, b, b_stride, c, c_stride, resume);
    case 5:
      return RegisterBlock<T, 5>(depth, a, b, b_stride, c, c_stride, resume);
    default:
      return RegisterBlock<T, kBlockRows>(depth, a, b, b_stride, c, c_stride, resume);
  }
}

// Fewer columns than a register block: through a full block on the stack.
template <class T>
void EdgeBlock(int64_t rows, int64_t columns, int64_t depth, const MatrixView<T>& a, const T* b,
               int64_t b_stride, T* c, int64_t c_stride, bool resume) {
  constexpr int kColumns = Blocking<T>::kColumns;
  alignas(64) T full[kBlockRows * kColumns] = {};
  if (resume) {
    for (int64_t r = 0; r < rows; ++r) {
      std::copy_n(c + r * c_stride, columns, full + r * kColumns);
    }
  }
  RegisterBlockOf(rows, depth, a, b, b_stride, full, int64_t{kColumns}, resume);
  for (int64_t r = 0; r < rows; ++r) std::copy_n(full + r * kColumns, columns, c + r * c_stride);
}

// panel[p][j] = b(p, j) for j < columns, 0 beyond.
template <class T>
void PackPanel(int64_t depth, int64_t columns, const MatrixView<T>& b, T* panel) {
  constexpr int kLanes = Blocking<T>::kLanes;
  constexpr int kColumns = Blocking<T>::kColumns;
  int64_t first = 0;  // rows of the panel that are done
  if (columns == kColumns && b.column_stride == 1) {
    for (; first < depth; ++first) {
      std::copy_n(b.data + first * b.row_stride, kColumns, panel + first * kColumns);
    }
  } else if (columns == kColumns && b.row_stride == 1) {
    for (; first + kLanes <= depth; first += kLanes) {
      for (int j = 0; j < kColumns; j += kLanes) {
        Simd<T>::Transpose(b.data + first + j * b.column_stride, b.column_stride,
                           panel + first * kColumns + j, kColumns);
      }
    }
  }
  for (int64_t p = first; p < depth; ++p) {
    T* row = panel + p * kColumns;
    for (int64_t j = 0; j < columns; ++j) row[j] = b.data[p * b.row_stride + j * b.column_stride];
    for (int64_t j = columns; j < kColumns; ++j) row[j] = Zero<T>();
  }
}

// block[p][r] = a(r, p); the constant number of rows lets the copies be unrolled.
template <class T, int kR>
void PackRows(int64_t depth, const MatrixView<T>& a, T* block) {
  const T* from = a.data;
  for (int64_t p = 0; p < depth; ++p, from += a.column_stride, block += kR) {
    if (a.row_stride == 1) {
      std::copy_n(from, kR, block);
    } else {
#pragma GCC unroll 8
      for (int r = 0; r < kR; ++r) block[r] = from[r * a.row_stride];
    }
  }
}

// Blocks of kBlockRows rows, one after the other. The last, shorter one is left in place.
template <class T>
void PackBlock(int64_t rows, int64_t depth, const MatrixView<T>& a, T* block) {
  for (int64_t i = 0; i + kBlockRows <= rows; i += kBlockRows) {
    PackRows<T, kBlockRows>(depth, {a.data + i * a.row_stride, a.row_stride, a.column_stride},
                            block + i * depth);
  }
}

// All rows of C against one packed set of panels.
template <class T>
class GemmBlocked {
 public:
  using B = Blocking<T>;
  static constexpr int64_t kColumns = B::kColumns;

  GemmBlocked(const GemmSize& size, const MatrixView<T>& a, const MatrixView<T>& b, T* c,
              int64_t c_stride)
      : size_(size), a_(a), b_(b), c_(c), c_stride_(c_stride), scratch_(ThreadScratch<T>()) {
    const int64_t size_of = static_cast<int64_t>(sizeof(T));
    // Packing B makes rows of what is not in rows, and keeps a panel together when B is larger than
    // the first-level cache. Packing A pays when it is read for many panels and would crowd the
    // second-level cache.
    pack_b_ = b.column_stride != 1 || size.k * size.n * size_of > kFirstCacheBytes;
    pack_a_ = size.m * size.k * size_of >= kSecondCacheBytes / 2 && size.n >= 8 * kColumns;
  }

  void Run() {
    for (int64_t column = 0; column < size_.n; column += B::kWide) {
      for (int64_t p = 0; p < size_.k; p += B::kDepth) {
        Slab(column, std::min(B::kWide, size_.n - column), p, std::min(B::kDepth, size_.k - p));
      }
    }
  }

 private:
  static constexpr int64_t kFirstCacheBytes = 32 * 1024;
  static constexpr int64_t kSecondCacheBytes = 512 * 1024;

  // Columns [column, column + wide) of C, indices [p, p + depth) of the chain.
  void Slab(int64_t column, int64_t wide, int64_t p, int64_t depth) {
    for (int64_t j = 0; j < wide; j += kColumns) {
      const int64_t columns = std::min(kColumns, wide - j);
      if (pack_b_ || columns < kColumns) {
        PackPanel<T>(depth, columns, ViewOfB(p, column + j), scratch_.b_panels() + j * depth);
      }
    }
    for (int64_t i = 0; i < size_.m; i += B::kRows) {
      const int64_t rows = std::min(B::kRows, size_.m - i);
      if (pack_a_) PackBlock<T>(rows, depth, ViewOfA(i, p), scratch_.a_block());
      for (int64_t j = 0; j < wide; j += kColumns) Panel(i, rows, column, j, wide, p, depth);
    }
  }

  void Panel(int64_t i, int64_t rows, int64_t column, int64_t j, int64_t wide, int64_t p,
             int64_t depth) {
    const int64_t columns = std::min(kColumns, wide - j);
    const bool packed = pack_b_ || columns < kColumns;
    const T* b = packed ? scratch_.b_panels() + j * depth : ViewOfB(p, column + j).data;
    const int64_t b_stride = packed ? kColumns : b_.row_stride;
    for (int64_t r = 0; r < rows; r += kBlockRows) {
      const int64_t n = std::min<int64_t>(kBlockRows, rows - r);
      const bool packed_rows = pack_a_ && n == kBlockRows;
      const MatrixView<T> a = packed_rows
                                  ? MatrixView<T>{scratch_.a_block() + r * depth, 1, kBlockRows}
                                  : ViewOfA(i + r, p);
      T* c = c_ + (i + r) * c_stride_ + column + j;
      if (columns == kColumns) {
        RegisterBlockOf<T>(n, depth, a, b, b_stride, c, c_stride_, p > 0);
      } else {
        EdgeBlock<T>(n, columns, depth, a, b, b_stride, c, c_stride_, p > 0);
      }
    }
  }

  MatrixView<T> ViewOfA(int64_t i, int64_t p) const {
    return {a_.data + i * a_.row_stride + p * a_.column_stride, a_.row_stride, a_.column_stride};
  }
  MatrixView<T> ViewOfB(int64_t p, int64_t j) const {
    return {b_.data + p * b_.row_stride + j * b_.column_stride, b_.row_stride, b_.column_stride};
  }

  const GemmSize size_;
  const MatrixView<T> a_;
  const MatrixView<T> b_;
  T* const c_;
  const int64_t c_stride_;
  Scratch<T>& scratch_;
  bool pack_a_;
  bool pack_b_;
};

}  // namespace

template <class T>
void Gemm(const GemmSize& size, const MatrixView<T>& a, const MatrixView<T>& b, T* c,
          int64_t c_stride) {
  if (size.m == 0 || size.n == 0) return;
  if constexpr (Simd<T>::kAvailable) {
    if (size.k > 0) return GemmBlocked<T>(size, a, b, c, c_stride).Run();
  }
  GemmScalar<T>(size, a, b, c, c_stride);
}

template void Gemm<float>(const GemmSize&, const MatrixView<float>&, const MatrixView<float>&,
                          float*, int64_t);
template void Gemm<double>(const GemmSize&, const MatrixView<double>&, const MatrixView<double>&,
                           double*, int64_t);

}  // namespace plumbline::host
