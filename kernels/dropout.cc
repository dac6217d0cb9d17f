#include "kernels/dropout.h"

#include "base/dtype.h"
#include "base/scalar.h"
#include "kernels/host/common.h"
#include "kernels/host/in_f32.h"
#include "kernels/host/keep_mask.h"

namespace plumbline {
namespace {

template <class T>
Tensor DropoutImpl(const Context& context, const Tensor& x, const DropoutKey& key,
                   std::span<const int64_t> rows, int64_t first_column, int64_t global_columns) {
  const int64_t batch = x.dim(1);
  const int64_t columns = x.dim(2);
  const host::Packed packed(context, x);
  Tensor result = Tensor::Empty(context, x.dtype(), x.shape());
  const T factor = host::KeptFactor<T>(key.probability);
  for (int64_t b = 0; b < batch; ++b) {
    const host::KeepMask mask(key, b);
    for (int64_t s = 0; s < x.dim(0); ++s) {
      const T* in = packed.data<T>() + (s * batch + b) * columns;
      T* out = result.data<T>() + (s * batch + b) * columns;
      const uint64_t first = static_cast<uint64_t>(rows[s] * global_columns + first_column);
      mask.ForEach(first, columns,
                   [=](int64_t i, bool kept) { out[i] = kept ? in[i] * factor : host::Zero<T>(); });
    }
  }
  return result;
}

}  // namespace

Tensor Dropout(const Context& context, const Tensor& x, const DropoutKey& key,
               std::span<const int64_t> rows, int64_t first_column, int64_t global_columns) {
  host::CheckDims("dropout", "x", x, 3);
  if (!host::Drops("dropout", key, x.dim(1))) return x.Clone(context);
  if (static_cast<int64_t>(rows.size()) != x.dim(0)) {
    throw InvalidArgument("dropout: {} row numbers for x {}", rows.size(), ToString(x.shape()));
  }
  if (first_column < 0 || first_column + x.dim(2) > global_columns) {
    throw InvalidArgument("dropout: columns [{}, {}) of {}", first_column, first_column + x.dim(2),
                          global_columns);
  }
  if (const host::InF32 f32(context, x.dtype()); f32.needed()) {
    return f32.Round(Dropout(f32.context(), f32.Widen(x), key, rows, first_column, global_columns));
  }
  return DispatchScalar(x.dtype(), [&]<class T>() {
    return DropoutImpl<T>(context, x, key, rows, first_column, global_columns);
  });
}

}  // namespace plumbline
