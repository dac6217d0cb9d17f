#include "kernels/embedding.h"

#include <algorithm>

#include "base/dtype.h"
#include "base/scalar.h"
#include "kernels/host/common.h"
#include "kernels/host/in_f32.h"

namespace plumbline {
namespace {

void CheckIds(std::string_view op, const Tensor& ids) {
  host::CheckDims(op, "ids", ids, 2);
  host::CheckIndices(op, "ids", ids);
}

// Row of the local table, or -1 when another rank holds it.
int64_t LocalRow(const Tensor& ids, int64_t b, int64_t s, int64_t first_row, int64_t rows) {
  const int64_t id = ids.data<int64_t>()[b * ids.strides()[0] + s * ids.strides()[1]];
  const int64_t row = id - first_row;
  return row >= 0 && row < rows ? row : -1;
}

template <class T>
Tensor Gather(const Context& context, const Tensor& ids, const Tensor& table, int64_t first_row) {
  const int64_t batch = ids.dim(0);
  const int64_t sequence = ids.dim(1);
  const int64_t hidden = table.dim(1);
  Tensor result = Tensor::Empty(context, table.dtype(), {sequence, batch, hidden});
  const host::Packed packed(context, table);
  T* out = result.data<T>();
  for (int64_t s = 0; s < sequence; ++s) {
    for (int64_t b = 0; b < batch; ++b, out += hidden) {
      const int64_t row = LocalRow(ids, b, s, first_row, table.dim(0));
      if (row < 0) {
        std::fill_n(out, hidden, host::Zero<T>());
      } else {
        std::copy_n(packed.data<T>() + row * hidden, hidden, out);
      }
    }
  }
  return result;
}

template <class T>
Tensor Scatter(const Context& context, const Tensor& dy, const Tensor& ids, int64_t rows,
               int64_t first_row) {
  const int64_t hidden = dy.dim(2);
  Tensor result = Tensor::Empty(context, dy.dtype(), {rows, hidden});
  T* out = result.data<T>();
  std::fill_n(out, result.elements(), host::Zero<T>());
  const host::Packed packed(context, dy);
  const T* in = packed.data<T>();
  for (int64_t s = 0; s < dy.dim(0); ++s) {
    for (int64_t b = 0; b < dy.dim(1); ++b, in += hidden) {
      const int64_t row = LocalRow(ids, b, s, first_row, rows);
      if (row < 0) continue;
      T* to = out + row * hidden;
      for (int64_t i = 0; i < hidden; ++i) to[i] = to[i] + in[i];
    }
  }
  return result;
}

}  // namespace

Tensor EmbeddingForward(const Context& context, const Tensor& ids, const Tensor& table,
                        int64_t first_row) {
  CheckIds("embedding", ids);
  host::CheckDims("embedding", "table", table, 2);
  if (const host::InF32 f32(context, table.dtype()); f32.needed()) {
    return f32.Round(EmbeddingForward(f32.context(), ids, f32.Widen(table), first_row));
  }
  return DispatchScalar(table.dtype(),
                        [&]<class T>() { return Gather<T>(context, ids, table, first_row); });
}

Tensor EmbeddingBackward(const Context& context, const Tensor& dy, const Tensor& ids, int64_t rows,
                         int64_t first_row) {
  CheckIds("embedding backward", ids);
  host::CheckDims("embedding backward", "dy", dy, 3);
  host::CheckShape("embedding backward", "dy", dy, {ids.dim(1), ids.dim(0), dy.dim(2)});
  if (const host::InF32 f32(context, dy.dtype()); f32.needed()) {
    return f32.Round(EmbeddingBackward(f32.context(), f32.Widen(dy), ids, rows, first_row));
  }
  return DispatchScalar(dy.dtype(),
                        [&]<class T>() { return Scatter<T>(context, dy, ids, rows, first_row); });
}

}  // namespace plumbline
