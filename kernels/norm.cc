#include "kernels/norm.h"

#include <utility>

#include "base/dtype.h"
#include "base/scalar.h"
#include "kernels/host/common.h"
#include "kernels/host/in_f32.h"

namespace plumbline {
namespace {

using host::MultiplyAdd;
using host::One;
using host::RowChains;
using host::Zero;

// The inputs of one call, packed; an operator has no mean (RMSNorm) or no bias when the tensor is
// undefined.
template <class T>
struct NormRows {
  NormRows(const Context& context, const Tensor& input)
      : packed(context, input),
        x(packed.template data<T>()),
        rows(host::RowsOf("norm", input)),
        columns(input.dim(-1)) {}

  host::Packed packed;
  const T* x;
  int64_t rows;
  int64_t columns;
};

template <class T>
T ReciprocalRoot(T sum_of_squares, int64_t columns, double epsilon) {
  using Traits = ScalarTraits<T>;
  const T mean = sum_of_squares / Traits::FromInt(columns);
  return One<T>() / Traits::Sqrt(mean + Traits::FromDouble(epsilon));
}

template <class T>
NormForwardResult LayerNormForwardImpl(const Context& context, const Tensor& x,
                                       const Tensor& weight, const Tensor& bias, double epsilon) {
  const NormRows<T> in(context, x);
  const host::Packed weight_packed(context, weight);
  const host::Packed bias_packed(context, bias);
  const T* w = weight_packed.data<T>();
  const T* b = bias_packed.data<T>();
  const int64_t h = in.columns;
  Tensor mean_tensor = Tensor::Zeros(context, x.dtype(), {in.rows});
  Tensor rstd_tensor = Tensor::Zeros(context, x.dtype(), {in.rows});
  Tensor y_tensor = Tensor::Empty(context, x.dtype(), x.shape());
  T* mean = mean_tensor.data<T>();
  T* rstd = rstd_tensor.data<T>();
  RowChains<T>(
      in.rows, h, [&](int64_t row, int64_t i, T sum) { return sum + in.x[row * h + i]; }, mean);
  const host::DivideBy<T> average(ScalarTraits<T>::FromInt(h));
  for (int64_t row = 0; row < in.rows; ++row) mean[row] = average(mean[row]);
  RowChains<T>(
      in.rows, h,
      [&](int64_t row, int64_t i, T sum) {
        const T centred = in.x[row * h + i] - mean[row];
        return MultiplyAdd(centred, centred, sum);
      },
      rstd);
  for (int64_t row = 0; row < in.rows; ++row) {
    rstd[row] = ReciprocalRoot(rstd[row], h, epsilon);
    const T* from = in.x + row * h;
    T* y = y_tensor.data<T>() + row * h;
    const T m = mean[row];
    const T r = rstd[row];
    for (int64_t i = 0; i < h; ++i) y[i] = (from[i] - m) * r * w[i] + b[i];
  }
  return {std::move(y_tensor), std::move(mean_tensor), std::move(rstd_tensor)};
}

template <class T>
NormForwardResult RmsNormForwardImpl(const Context& context, const Tensor& x, const Tensor& weight,
                                     double epsilon) {
  const NormRows<T> in(context, x);
  const host::Packed weight_packed(context, weight);
  const T* w = weight_packed.data<T>();
  const int64_t h = in.columns;
  Tensor rstd_tensor = Tensor::Zeros(context, x.dtype(), {in.rows});
  Tensor y_tensor = Tensor::Empty(context, x.dtype(), x.shape());
  T* rstd = rstd_tensor.data<T>();
  RowChains<T>(
      in.rows, h,
      [&](int64_t row, int64_t i, T sum) {
        return MultiplyAdd(in.x[row * h + i], in.x[row * h + i], sum);
      },
      rstd);
  for (int64_t row = 0; row < in.rows; ++row) {
    rstd[row] = ReciprocalRoot(rstd[row], h, epsilon);
    const T* from = in.x + row * h;
    T* y = y_tensor.data<T>() + row * h;
    const T r = rstd[row];
    for (int64_t i = 0; i < h; ++i) y[i] = from[i] * r * w[i];
  }
  return {std::move(y_tensor), Tensor(), std::move(rstd_tensor)};
}

// With n = (x - mean) rstd and g = dy weight: dx = rstd (g - mean(g) - n mean(g n)); without a mean
// the term mean(g) is absent. mean is null for RMSNorm.
template <class T>
struct NormGradient {
  const T* dy;
  const T* x;
  const T* weight;
  const T* mean;
  const T* rstd;
  int64_t rows;
  int64_t columns;

  template <bool kCentred>
  T Normalised(int64_t row, int64_t i) const {
    const T value = x[row * columns + i];
    if constexpr (kCentred) {
      return (value - mean[row]) * rstd[row];
    } else {
      return value * rstd[row];
    }
  }

  template <bool kCentred>
  void Run(T* dx, T* dweight, T* dbias, T* gradient_mean, T* product_mean) const {
    const int64_t h = columns;
    if constexpr (kCentred) {
      RowChains<T>(
          rows, h,
          [this, h](int64_t row, int64_t i, T sum) {
            return MultiplyAdd(dy[row * h + i], weight[i], sum);
          },
          gradient_mean);
    }
    RowChains<T>(
        rows, h,
        [this, h](int64_t row, int64_t i, T sum) {
          return MultiplyAdd(dy[row * h + i] * weight[i], Normalised<kCentred>(row, i), sum);
        },
        product_mean);
    const host::DivideBy<T> mean_of(ScalarTraits<T>::FromInt(h));
    for (int64_t row = 0; row < rows; ++row) {
      const T* g = dy + row * h;
      T* out = dx + row * h;
      const T r = rstd[row];
      const T product = mean_of(product_mean[row]);
      for (int64_t i = 0; i < h; ++i) {
        dweight[i] = MultiplyAdd(g[i], Normalised<kCentred>(row, i), dweight[i]);
      }
      if constexpr (kCentred) {
        const T average = mean_of(gradient_mean[row]);
        for (int64_t i = 0; i < h; ++i) dbias[i] = dbias[i] + g[i];
        for (int64_t i = 0; i < h; ++i) {
          out[i] = r * (g[i] * weight[i] - average - Normalised<kCentred>(row, i) * product);
        }
      } else {
        for (int64_t i = 0; i < h; ++i) {
          out[i] = r * (g[i] * weight[i] - Normalised<kCentred>(row, i) * product);
        }
      }
    }
  }
};

template <class T, bool kCentred>
NormBackwardResult NormBackwardImpl(const Context& context, const Tensor& dy, const Tensor& x,
                                    const Tensor& weight, const Tensor& mean, const Tensor& rstd) {
  const NormRows<T> in(context, x);
  const host::Packed dy_packed(context, dy);
  const host::Packed weight_packed(context, weight);
  const Tensor mean_packed = kCentred ? mean.Contiguous(context) : Tensor();
  const host::Packed rstd_packed(context, rstd);
  NormBackwardResult result;
  result.dx = Tensor::Empty(context, x.dtype(), x.shape());
  result.dweight = Tensor::Zeros(context, x.dtype(), {in.columns});
  if (kCentred) result.dbias = Tensor::Zeros(context, x.dtype(), {in.columns});
  Tensor sums = Tensor::Zeros(context, x.dtype(), {2, in.rows});
  const NormGradient<T> gradient = {dy_packed.data<T>(),
                                    in.x,
                                    weight_packed.data<T>(),
                                    kCentred ? mean_packed.data<T>() : nullptr,
                                    rstd_packed.data<T>(),
                                    in.rows,
                                    in.columns};
  gradient.template Run<kCentred>(result.dx.data<T>(), result.dweight.data<T>(),
                                  kCentred ? result.dbias.data<T>() : nullptr, sums.data<T>(),
                                  sums.data<T>() + in.rows);
  return result;
}

NormForwardResult Stored(const host::InF32& f32, const NormForwardResult& wide) {
  return {f32.Round(wide.y), f32.Keep(wide.mean), f32.Keep(wide.rstd)};
}
NormBackwardResult Stored(const host::InF32& f32, const NormBackwardResult& wide) {
  return {f32.Round(wide.dx), f32.Round(wide.dweight), f32.Round(wide.dbias)};
}

void CheckForward(std::string_view op, const Tensor& x, const Tensor& weight) {
  host::RowsOf(op, x);
  host::CheckDTypes(op, x, weight);
  host::CheckShape(op, "weight", weight, {x.dim(-1)});
}

void CheckBackward(std::string_view op, const Tensor& dy, const Tensor& x, const Tensor& weight,
                   const Tensor& rstd) {
  CheckForward(op, x, weight);
  host::CheckSame(op, dy, x);
  host::CheckDType(op, "rstd", rstd, ComputeDType(x.dtype()));
  host::CheckShape(op, "rstd", rstd, {host::RowsOf(op, x)});
}

}  // namespace

NormForwardResult LayerNormForward(const Context& context, const Tensor& x, const Tensor& weight,
                                   const Tensor& bias, double epsilon) {
  CheckForward("LayerNorm", x, weight);
  host::CheckSame("LayerNorm", weight, bias);
  if (const host::InF32 f32(context, x.dtype()); f32.needed()) {
    return Stored(f32, LayerNormForward(f32.context(), f32.Widen(x), f32.Widen(weight),
                                        f32.Widen(bias), epsilon));
  }
  return DispatchScalar(x.dtype(), [&]<class T>() {
    return LayerNormForwardImpl<T>(context, x, weight, bias, epsilon);
  });
}

NormBackwardResult LayerNormBackward(const Context& context, const Tensor& dy, const Tensor& x,
                                     const Tensor& weight, const Tensor& mean, const Tensor& rstd) {
  CheckBackward("LayerNorm backward", dy, x, weight, rstd);
  host::CheckSame("LayerNorm backward", mean, rstd);
  if (const host::InF32 f32(context, x.dtype()); f32.needed()) {
    return Stored(f32, LayerNormBackward(f32.context(), f32.Widen(dy), f32.Widen(x),
                                         f32.Widen(weight), mean, rstd));
  }
  return DispatchScalar(x.dtype(), [&]<class T>() {
    return NormBackwardImpl<T, true>(context, dy, x, weight, mean, rstd);
  });
}

NormForwardResult RmsNormForward(const Context& context, const Tensor& x, const Tensor& weight,
                                 double epsilon) {
  CheckForward("RMSNorm", x, weight);
  if (const host::InF32 f32(context, x.dtype()); f32.needed()) {
    return Stored(f32, RmsNormForward(f32.context(), f32.Widen(x), f32.Widen(weight), epsilon));
  }
  return DispatchScalar(
      x.dtype(), [&]<class T>() { return RmsNormForwardImpl<T>(context, x, weight, epsilon); });
}

NormBackwardResult RmsNormBackward(const Context& context, const Tensor& dy, const Tensor& x,
                                   const Tensor& weight, const Tensor& rstd) {
  CheckBackward("RMSNorm backward", dy, x, weight, rstd);
  if (const host::InF32 f32(context, x.dtype()); f32.needed()) {
    return Stored(
        f32, RmsNormBackward(f32.context(), f32.Widen(dy), f32.Widen(x), f32.Widen(weight), rstd));
  }
  return DispatchScalar(x.dtype(), [&]<class T>() {
    return NormBackwardImpl<T, false>(context, dy, x, weight, Tensor(), rstd);
  });
}

}  // namespace plumbline
