// Which keys each query sees, and where the operands lie: what the attention's forward and backward
// share.
#ifndef PLUMBLINE_KERNELS_HOST_ATTENTION_PLAN_H_
#define PLUMBLINE_KERNELS_HOST_ATTENTION_PLAN_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/tensor.h"
#include "kernels/attention.h"
#include "kernels/host/gemm.h"
#include "kernels/host/weighted_sum.h"

namespace plumbline::host {

// For each of some rows, the ascending runs of columns that belong to it.
class RunLists {
 public:
  std::span<const Run> Of(int64_t row) const {
    const size_t begin = first_[static_cast<size_t>(row)];
    return std::span(runs_).subspan(begin, first_[static_cast<size_t>(row) + 1] - begin);
  }
  // The shortest range that holds the runs of rows [begin, end).
  Run Hull(int64_t begin, int64_t end) const;

  void StartRow() { first_.push_back(runs_.size()); }
  // Adds to the last row; columns come in ascending order.
  void Add(Run run);

 private:
  std::vector<Run> runs_;
  std::vector<size_t> first_ = {0};
};

// Which keys each query of one batch row sees, and which queries see each key.
RunLists KeysOfQueries(const AttentionOptions& options, int64_t batch_row);
RunLists QueriesOfKeys(const AttentionOptions& options, int64_t batch_row);

struct AttentionExtents {
  int64_t queries;
  int64_t keys;
  int64_t batch;
  int64_t heads;
  int64_t groups;
  int64_t channels;
};
// Throws InvalidArgument when shapes, dtypes, positions or documents don't fit each other.
AttentionExtents CheckAttention(std::string_view op, const Tensor& q, const Tensor& k,
                                const Tensor& v, const AttentionOptions& options);

// Rows of one (batch row, head) of x [S, B, heads, D].
template <class T>
MatrixView<T> HeadView(const Tensor& x, int64_t batch_row, int64_t head) {
  return {x.data<T>() + batch_row * x.strides()[1] + head * x.strides()[2], x.strides()[0],
          x.strides()[3]};
}

// Queries are taken this many at a time: enough to fill the product's register blocks, few enough
// that their scores stay in cache.
inline constexpr int64_t kQueryBlock = 48;

// out[i][j] = a row (rows.begin + i) . b row (columns.begin + j), one chain over the channels.
template <class T>
void RowProducts(const MatrixView<T>& a, const Run& rows, const MatrixView<T>& b,
                 const Run& columns, int64_t channels, T* out, int64_t out_stride) {
  const MatrixView<T> left = {a.data + rows.begin * a.row_stride, a.row_stride, a.column_stride};
  const MatrixView<T> right = {b.data + columns.begin * b.row_stride, b.column_stride,
                               b.row_stride};
  Gemm<T>({rows.end - rows.begin, columns.end - columns.begin, channels}, left, right, out,
          out_stride);
}

}  // namespace plumbline::host

#endif  // PLUMBLINE_KERNELS_HOST_ATTENTION_PLAN_H_
