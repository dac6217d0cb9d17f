// How much of a long sweep runs: all of it, and with a sanitizer, which costs ten times as much,
// every tenth cell.
#ifndef PLUMBLINE_TESTS_BASE_SWEEP_H_
#define PLUMBLINE_TESTS_BASE_SWEEP_H_

#include <cstddef>
#include <utility>
#include <vector>

namespace plumbline {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr size_t kSweepStride = 10;
#else
inline constexpr size_t kSweepStride = 1;
#endif

// The cells to run, at least one of any. Strides of different sweeps begin at different cells.
template <class Cell>
std::vector<Cell> SweepOf(std::vector<Cell> cells) {
  if (kSweepStride == 1) return cells;
  std::vector<Cell> kept;
  const size_t first = cells.size() % kSweepStride / 2;
  for (size_t i = first; i < cells.size(); i += kSweepStride) kept.push_back(std::move(cells[i]));
  return kept;
}

}  // namespace plumbline

#endif  // PLUMBLINE_TESTS_BASE_SWEEP_H_
