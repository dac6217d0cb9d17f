// Rotary position embedding: channel pairs of queries and keys turn by position times frequency.
//
//   (y_a, y_b) = (x_a cos t - x_b sin t, x_a sin t + x_b cos t), t = position * f_i
//   f_i = base^(-2i/R), i < R/2, R the number of channels that rotate (rotary_percent)
// Pairs (a, b): half-split (i, i + R/2); interleaved (2i, 2i + 1). Channels from R on pass.
// Backward is the transposed rotation, t -> -t.
//
// Scaled frequencies: linear f/factor (Chen et al. 2023). llama3 goes by the wavelength 2 pi / f:
// shorter than original/high stays; longer than original/low is divided by factor; between,
// (1 - m) f/factor + m f with m = (original/wavelength - low) / (high - low).
//
// Shapes:   x [S B, N D], heads of D channels side by side; one row of angles per row of x.
// Source:   Su et al. 2021; Llama 3.1's published rule.
#ifndef PLUMBLINE_ORACLE_ROPE_H_
#define PLUMBLINE_ORACLE_ROPE_H_

#include <cstdint>
#include <vector>

#include "base/config.h"
#include "base/scalar.h"
#include "oracle/matrix.h"

namespace plumbline {

// f_i, scaled; empty when the configuration has no rotary embedding. Throws InvalidArgument when
// the number of channels that rotate is odd or 0.
std::vector<double> InverseFrequencies(const TransformerConfig& config);

// cos and sin of every row's position times every frequency.
template <class T>
struct RotaryTable {
  Matrix<T> cos;  // [S B, R/2]
  Matrix<T> sin;
};

// `positions`: one per row.
template <class T>
RotaryTable<T> MakeRotaryTable(const std::vector<int64_t>& positions,
                               const std::vector<double>& inverse_frequencies) {
  const auto rows = static_cast<Eigen::Index>(positions.size());
  const auto pairs = static_cast<Eigen::Index>(inverse_frequencies.size());
  RotaryTable<T> table = {Matrix<T>(rows, pairs), Matrix<T>(rows, pairs)};
  for (Eigen::Index row = 0; row < rows; ++row) {
    for (Eigen::Index i = 0; i < pairs; ++i) {
      const Rotation<T> rotation = ScalarTraits<T>::Rotary(
          positions[static_cast<size_t>(row)], i, inverse_frequencies[static_cast<size_t>(i)]);
      table.cos(row, i) = rotation.cos;
      table.sin(row, i) = rotation.sin;
    }
  }
  return table;
}

namespace internal {

// Calls turn(x_a, x_b, cos, sin) for every pair of every head of `channels` channels.
template <class T, class Turn>
void ForEachRotaryPair(Matrix<T>& x, const RotaryTable<T>& table, int64_t channels,
                       bool interleaved, Turn&& turn) {
  const Eigen::Index pairs = table.cos.cols();
  for (Eigen::Index row = 0; row < x.rows(); ++row) {
    for (Eigen::Index head = 0; head < x.cols(); head += channels) {
      for (Eigen::Index i = 0; i < pairs; ++i) {
        T& a = x(row, head + (interleaved ? 2 * i : i));
        T& b = x(row, head + (interleaved ? 2 * i + 1 : i + pairs));
        turn(a, b, table.cos(row, i), table.sin(row, i));
      }
    }
  }
}

}  // namespace internal

template <class T>
Matrix<T> RopeForward(Matrix<T> x, const RotaryTable<T>& table, int64_t channels,
                      bool interleaved) {
  internal::ForEachRotaryPair(x, table, channels, interleaved,
                              [](T& a, T& b, const T& cos, const T& sin) {
                                const T turned = a * cos - b * sin;
                                b = a * sin + b * cos;
                                a = turned;
                              });
  return x;
}

template <class T>
Matrix<T> RopeBackward(Matrix<T> dy, const RotaryTable<T>& table, int64_t channels,
                       bool interleaved) {
  internal::ForEachRotaryPair(dy, table, channels, interleaved,
                              [](T& a, T& b, const T& cos, const T& sin) {
                                const T turned = a * cos + b * sin;
                                b = b * cos - a * sin;
                                a = turned;
                              });
  return dy;
}

}  // namespace plumbline

#endif  // PLUMBLINE_ORACLE_ROPE_H_
