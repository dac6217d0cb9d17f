#include "kernels/matmul.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/dtype.h"
#include "base/error.h"
#include "kernels/elementwise.h"
#include "kernels/host/common.h"
#include "kernels/host/gemm.h"
#include "kernels/host/in_f32.h"

namespace plumbline {
namespace {

using host::GemmSize;
using host::MatrixView;

// x [..., N] as a matrix of M rows: a copy only when the leading dimensions have no common stride.
class RowMatrix {
 public:
  RowMatrix(const Context& context, std::string_view op, const Tensor& x)
      : matrix_(&x), rows_(host::RowsOf(op, x)) {
    if (std::optional<int64_t> stride = CommonStride(x)) {
      row_stride_ = *stride;
    } else {
      copy_ = x.Contiguous(context);
      matrix_ = &copy_;
      row_stride_ = x.dim(-1);
    }
    column_stride_ = matrix_->strides().back();
  }

  RowMatrix(const RowMatrix&) = delete;
  RowMatrix& operator=(const RowMatrix&) = delete;

  int64_t rows() const { return rows_; }
  int64_t columns() const { return matrix_->shape().back(); }
  template <class T>
  MatrixView<T> View() const {
    return {matrix_->data<T>(), row_stride_, column_stride_};
  }
  template <class T>
  MatrixView<T> Transposed() const {
    return {matrix_->data<T>(), column_stride_, row_stride_};
  }

 private:
  // The distance of consecutive rows when the leading dimensions are walked in row-major order.
  static std::optional<int64_t> CommonStride(const Tensor& x) {
    int64_t stride = 0;
    int64_t walked = 1;
    for (int64_t axis = x.dims() - 2; axis >= 0; --axis) {
      if (x.shape()[axis] == 1) continue;
      if (walked == 1) {
        stride = x.strides()[axis];
      } else if (x.strides()[axis] != stride * walked) {
        return std::nullopt;
      }
      walked *= x.shape()[axis];
    }
    return stride;
  }

  const Tensor* matrix_;
  Tensor copy_;
  int64_t rows_;
  int64_t row_stride_ = 0;
  int64_t column_stride_ = 0;
};

void CheckSummed(std::string_view op, const Tensor& a, const Tensor& b, int64_t a_extent,
                 int64_t b_extent) {
  host::CheckDTypes(op, a, b);
  if (a_extent != b_extent) {
    throw InvalidArgument("{}: {} and {} sum over {} and {} elements", op, ToString(a.shape()),
                          ToString(b.shape()), a_extent, b_extent);
  }
}

// C = A B in the context's order of sums (base/context.h).
template <class T>
void Product(const Context& context, const GemmSize& size, const MatrixView<T>& a,
             const MatrixView<T>& b, Tensor& c) {
  const int64_t splits = std::min<int64_t>(context.sum_order.splits, size.k);
  if (splits <= 1) return host::Gemm<T>(size, a, b, c.data<T>(), size.n);
  Tensor part = Tensor::Empty(context, c.dtype(), c.shape(), MemoryCategory::kOther);
  for (int64_t i = 0; i < splits; ++i) {
    const int64_t block = context.sum_order.descending ? splits - 1 - i : i;
    const int64_t begin = size.k * block / splits;
    const int64_t end = size.k * (block + 1) / splits;
    T* target = i == 0 ? c.data<T>() : part.data<T>();
    host::Gemm<T>({size.m, size.n, end - begin},
                  {a.data + begin * a.column_stride, a.row_stride, a.column_stride},
                  {b.data + begin * b.row_stride, b.row_stride, b.column_stride}, target, size.n);
    if (i == 0) continue;
    T* sum = c.data<T>();
    for (int64_t j = 0; j < c.elements(); ++j) sum[j] = sum[j] + target[j];
  }
}

// The same where the blocks of a bf16 or f16 product are results of their own, which `block` gives.
template <class Block>
Tensor RoundedProduct(const Context& context, int64_t k, const Block& block) {
  const SumOrder& order = context.sum_order;
  Context one_chain = context;
  one_chain.sum_order = {};
  Tensor sum;
  for (int64_t i = 0; i < order.splits; ++i) {
    const int64_t at = order.descending ? order.splits - 1 - i : i;
    const int64_t begin = k * at / order.splits;
    const int64_t end = k * (at + 1) / order.splits;
    const Tensor part = block(one_chain, begin, end);
    sum = i == 0 ? part : Add(context, sum, part);
  }
  return sum;
}

Shape WithLast(Shape shape, int64_t last) {
  shape.back() = last;
  return shape;
}

}  // namespace

Tensor MatmulNT(const Context& context, const Tensor& x, const Tensor& w) {
  host::CheckDims("matmul NT", "w", w, 2);
  const RowMatrix a(context, "matmul NT", x);
  const RowMatrix b(context, "matmul NT", w);
  CheckSummed("matmul NT", x, w, a.columns(), b.columns());
  if (const host::InF32 f32(context, x.dtype()); f32.needed()) {
    if (context.sum_order.rounded) {
      return RoundedProduct(context, a.columns(),
                            [&](const Context& one, int64_t from, int64_t to) {
                              return MatmulNT(one, x.Slice(-1, from, to), w.Slice(1, from, to));
                            });
    }
    return f32.Round(MatmulNT(f32.context(), f32.Widen(x), f32.Widen(w)));
  }
  const GemmSize size = {a.rows(), b.rows(), a.columns()};
  Tensor y = Tensor::Empty(context, x.dtype(), WithLast(x.shape(), size.n));
  DispatchScalar(x.dtype(),
                 [&]<class T>() { Product<T>(context, size, a.View<T>(), b.Transposed<T>(), y); });
  return y;
}

Tensor MatmulNN(const Context& context, const Tensor& dy, const Tensor& w) {
  host::CheckDims("matmul NN", "w", w, 2);
  const RowMatrix a(context, "matmul NN", dy);
  const RowMatrix b(context, "matmul NN", w);
  CheckSummed("matmul NN", dy, w, a.columns(), b.rows());
  if (const host::InF32 f32(context, dy.dtype()); f32.needed()) {
    if (context.sum_order.rounded) {
      return RoundedProduct(context, a.columns(),
                            [&](const Context& one, int64_t from, int64_t to) {
                              return MatmulNN(one, dy.Slice(-1, from, to), w.Slice(0, from, to));
                            });
    }
    return f32.Round(MatmulNN(f32.context(), f32.Widen(dy), f32.Widen(w)));
  }
  const GemmSize size = {a.rows(), b.columns(), a.columns()};
  Tensor dx = Tensor::Empty(context, dy.dtype(), WithLast(dy.shape(), size.n));
  DispatchScalar(dy.dtype(),
                 [&]<class T>() { Product<T>(context, size, a.View<T>(), b.View<T>(), dx); });
  return dx;
}

Tensor MatmulTN(const Context& context, const Tensor& dy, const Tensor& x) {
  const RowMatrix a(context, "matmul TN", dy);
  const RowMatrix b(context, "matmul TN", x);
  CheckSummed("matmul TN", dy, x, a.rows(), b.rows());
  if (const host::InF32 f32(context, dy.dtype()); f32.needed()) {
    return f32.Round(MatmulTN(f32.context(), f32.Widen(dy), f32.Widen(x)));
  }
  const GemmSize size = {a.columns(), b.columns(), a.rows()};
  Tensor dw = Tensor::Empty(context, dy.dtype(), {size.m, size.n});
  DispatchScalar(dy.dtype(),
                 [&]<class T>() { Product<T>(context, size, a.Transposed<T>(), b.View<T>(), dw); });
  return dw;
}

}  // namespace plumbline
