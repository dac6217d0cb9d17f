#include "kernels/matmul.h"

#include <optional>
#include <utility>

#include "base/dtype.h"
#include "base/error.h"
#include "kernels/host/common.h"
#include "kernels/host/gemm.h"

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
  const GemmSize size = {a.rows(), b.rows(), a.columns()};
  Tensor y = Tensor::Empty(context, x.dtype(), WithLast(x.shape(), size.n));
  DispatchScalar(x.dtype(), [&]<class T>() {
    host::Gemm<T>(size, a.View<T>(), b.Transposed<T>(), y.data<T>(), size.n);
  });
  return y;
}

Tensor MatmulNN(const Context& context, const Tensor& dy, const Tensor& w) {
  host::CheckDims("matmul NN", "w", w, 2);
  const RowMatrix a(context, "matmul NN", dy);
  const RowMatrix b(context, "matmul NN", w);
  CheckSummed("matmul NN", dy, w, a.columns(), b.rows());
  const GemmSize size = {a.rows(), b.columns(), a.columns()};
  Tensor dx = Tensor::Empty(context, dy.dtype(), WithLast(dy.shape(), size.n));
  DispatchScalar(dy.dtype(), [&]<class T>() {
    host::Gemm<T>(size, a.View<T>(), b.View<T>(), dx.data<T>(), size.n);
  });
  return dx;
}

Tensor MatmulTN(const Context& context, const Tensor& dy, const Tensor& x) {
  const RowMatrix a(context, "matmul TN", dy);
  const RowMatrix b(context, "matmul TN", x);
  CheckSummed("matmul TN", dy, x, a.rows(), b.rows());
  const GemmSize size = {a.columns(), b.columns(), a.rows()};
  Tensor dw = Tensor::Empty(context, dy.dtype(), {size.m, size.n});
  DispatchScalar(dy.dtype(), [&]<class T>() {
    host::Gemm<T>(size, a.Transposed<T>(), b.View<T>(), dw.data<T>(), size.n);
  });
  return dw;
}

}  // namespace plumbline
