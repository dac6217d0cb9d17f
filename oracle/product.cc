#include "oracle/product.h"

#include <algorithm>

namespace plumbline::internal {
namespace {

using uint128 = unsigned __int128;

// Two rows by two columns at a time, so that each element is read half as often.
template <class T, int kRows, int kColumns>
void Block(int64_t depth, const T* a, const T* b, T* result, int64_t columns) {
  uint128 sums[kRows][kColumns] = {};
  // One place is kept for what the last reduction left.
  constexpr int64_t kTerms = T::kLazyTerms - 1;
  for (int64_t begin = 0; begin < depth; begin += kTerms) {
    const int64_t end = std::min(depth, begin + kTerms);
    for (int64_t l = begin; l < end; ++l) {
      for (int i = 0; i < kRows; ++i) {
        for (int j = 0; j < kColumns; ++j) {
          sums[i][j] += static_cast<uint128>(a[i * depth + l].v) * b[j * depth + l].v;
        }
      }
    }
    for (auto& row : sums) {
      for (uint128& sum : row) sum = T::Reduce(sum).v;
    }
  }
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kColumns; ++j) {
      result[i * columns + j] = T{static_cast<uint64_t>(sums[i][j])};
    }
  }
}

template <class T, int kRows>
void RowsOf(int64_t columns, int64_t depth, const T* a, const T* b, T* result) {
  int64_t j = 0;
  for (; j + 2 <= columns; j += 2) {
    Block<T, kRows, 2>(depth, a, b + j * depth, result + j, columns);
  }
  if (j < columns) Block<T, kRows, 1>(depth, a, b + j * depth, result + j, columns);
}

}  // namespace

template <class T>
void FieldProduct(int64_t rows, int64_t columns, int64_t depth, const T* a, const T* b, T* result) {
  int64_t i = 0;
  for (; i + 2 <= rows; i += 2) {
    RowsOf<T, 2>(columns, depth, a + i * depth, b, result + i * columns);
  }
  if (i < rows) RowsOf<T, 1>(columns, depth, a + i * depth, b, result + i * columns);
}

template void FieldProduct<M61>(int64_t, int64_t, int64_t, const M61*, const M61*, M61*);
template void FieldProduct<P50>(int64_t, int64_t, int64_t, const P50*, const P50*, P50*);
template void FieldProduct<P31>(int64_t, int64_t, int64_t, const P31*, const P31*, P31*);

}  // namespace plumbline::internal
