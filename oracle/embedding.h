// Embeddings: each token becomes its word's row, plus its position's row with learned positions.
//
// Forward: y_t = W[index_t]. Backward: dW[r] = sum over t with index_t = r of dy_t.
//
// Shapes:   indices: one per row of y; table [R, H]; y [rows, H].
// Errors:   InvalidArgument when an index is outside the table.
// Source:   Radford et al. 2019 (learned positions are added to word embeddings).
#ifndef PLUMBLINE_ORACLE_EMBEDDING_H_
#define PLUMBLINE_ORACLE_EMBEDDING_H_

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "oracle/matrix.h"

namespace plumbline {

template <class T>
Matrix<T> EmbeddingForward(const std::vector<int64_t>& indices, const Matrix<T>& table) {
  Matrix<T> y(static_cast<Eigen::Index>(indices.size()), table.cols());
  for (size_t t = 0; t < indices.size(); ++t) {
    if (indices[t] < 0 || indices[t] >= table.rows()) {
      throw InvalidArgument("embedding index {} of a table of {} rows", indices[t], table.rows());
    }
    y.row(static_cast<Eigen::Index>(t)) = table.row(indices[t]);
  }
  return y;
}

// Adds to dtable.
template <class T>
void EmbeddingBackward(const Matrix<T>& dy, const std::vector<int64_t>& indices,
                       Matrix<T>& dtable) {
  for (size_t t = 0; t < indices.size(); ++t) {
    dtable.row(indices[t]) += dy.row(static_cast<Eigen::Index>(t));
  }
}

}  // namespace plumbline

#endif  // PLUMBLINE_ORACLE_EMBEDDING_H_
