#include "kernels/elementwise.h"

#include <cmath>
#include <concepts>

#include "base/scalar.h"
#include "kernels/host/common.h"
#include "kernels/host/in_f32.h"

namespace plumbline {
namespace {

using host::CheckDTypes;
using host::CheckSame;
using host::CheckShape;

// result[i] = f(a[i], b[i]) into fresh storage.
template <class T, class F>
Tensor Combine(const Context& context, const Tensor& a, const Tensor& b, F f) {
  const host::Packed a_packed(context, a);
  const host::Packed b_packed(context, b);
  Tensor result = Tensor::Empty(context, a.dtype(), a.shape());
  const T* pa = a_packed.data<T>();
  const T* pb = b_packed.data<T>();
  T* out = result.data<T>();
  const int64_t n = a.elements();
  for (int64_t i = 0; i < n; ++i) out[i] = f(pa[i], pb[i]);
  return result;
}

// x[i] = f(x[i]) in place, for any strides.
template <class T, class F>
void Transform(Tensor& x, F f) {
  T* data = x.data<T>();
  ForEachRun(x, x, [&](int64_t offset, int64_t, int64_t n) {
    T* run = data + offset;
    for (int64_t i = 0; i < n; ++i) run[i] = f(run[i]);
  });
}

template <class T>
T ReadScalar(std::string_view op, const Tensor& x, const Tensor& scalar) {
  CheckDTypes(op, x, scalar);
  CheckShape(op, "the scalar", scalar, {});
  return *scalar.data<T>();
}

template <class T>
Tensor MakeScalar(const Context& context, T value) {
  return Tensor::FromVector<T>(context, {}, {value});
}

// Runs change(x as f32) on a bf16 or f16 tensor and rounds it once; false for other tensors.
template <class Change>
bool ChangeInF32(const Context& context, Tensor& x, Change change) {
  const host::InF32 f32(context, x.dtype());
  if (!f32.needed()) return false;
  Tensor wide = f32.Widen(x);
  change(f32.context(), wide);
  f32.RoundInto(x, wide);
  return true;
}

bool HoldsReals(DType dtype) { return dtype != DType::kI64 && !IsExact(dtype); }

}  // namespace

Tensor Add(const Context& context, const Tensor& a, const Tensor& b) {
  CheckSame("add", a, b);
  if (const host::InF32 f32(context, a.dtype()); f32.needed()) {
    return f32.Round(Add(f32.context(), f32.Widen(a), f32.Widen(b)));
  }
  return DispatchScalar(a.dtype(), [&]<class T>() {
    return Combine<T>(context, a, b, [](T x, T y) { return x + y; });
  });
}

Tensor Subtract(const Context& context, const Tensor& a, const Tensor& b) {
  CheckSame("subtract", a, b);
  if (const host::InF32 f32(context, a.dtype()); f32.needed()) {
    return f32.Round(Subtract(f32.context(), f32.Widen(a), f32.Widen(b)));
  }
  return DispatchScalar(a.dtype(), [&]<class T>() {
    return Combine<T>(context, a, b, [](T x, T y) { return x - y; });
  });
}

void AddInto(const Context& context, Tensor& target, const Tensor& source) {
  CheckShape("add into", "the source", source, target.shape());
  if (target.dtype() != DType::kF32 || !IsHalf(source.dtype())) {
    CheckDTypes("add into", target, source);
  }
  if (const host::InF32 f32(context, source.dtype()); f32.needed()) {
    Tensor sum = f32.Widen(target);
    AddInto(f32.context(), sum, f32.Widen(source));
    f32.RoundInto(target, sum);
    return;
  }
  DispatchScalar(target.dtype(), [&]<class T>() {
    T* to = target.data<T>();
    const T* from = source.data<T>();
    ForEachRun(target, source, [&](int64_t to_offset, int64_t from_offset, int64_t n) {
      T* a = to + to_offset;
      const T* b = from + from_offset;
      for (int64_t i = 0; i < n; ++i) a[i] = a[i] + b[i];
    });
  });
}

Tensor AddBias(const Context& context, const Tensor& x, const Tensor& bias) {
  CheckDTypes("add bias", x, bias);
  const int64_t rows = host::RowsOf("add bias", x);
  CheckShape("add bias", "the bias", bias, {x.dim(-1)});
  if (const host::InF32 f32(context, x.dtype()); f32.needed()) {
    return f32.Round(AddBias(f32.context(), f32.Widen(x), f32.Widen(bias)));
  }
  return DispatchScalar(x.dtype(), [&]<class T>() {
    const host::Packed x_packed(context, x);
    const host::Packed bias_packed(context, bias);
    Tensor result = Tensor::Empty(context, x.dtype(), x.shape());
    const int64_t n = x.dim(-1);
    const T* b = bias_packed.data<T>();
    for (int64_t row = 0; row < rows; ++row) {
      const T* in = x_packed.data<T>() + row * n;
      T* out = result.data<T>() + row * n;
      for (int64_t i = 0; i < n; ++i) out[i] = in[i] + b[i];
    }
    return result;
  });
}

Tensor SumRows(const Context& context, const Tensor& x) {
  const int64_t rows = host::RowsOf("sum rows", x);
  if (const host::InF32 f32(context, x.dtype()); f32.needed()) {
    return f32.Round(SumRows(f32.context(), f32.Widen(x)));
  }
  return DispatchScalar(x.dtype(), [&]<class T>() {
    const host::Packed packed(context, x);
    const int64_t n = x.dim(-1);
    Tensor result = Tensor::Zeros(context, x.dtype(), {n});
    T* out = result.data<T>();
    for (int64_t row = 0; row < rows; ++row) {
      const T* in = packed.data<T>() + row * n;
      for (int64_t i = 0; i < n; ++i) out[i] = out[i] + in[i];
    }
    return result;
  });
}

void ScaleInto(const Context& context, Tensor& x, double factor) {
  const auto change = [&](const Context& f32, Tensor& wide) { ScaleInto(f32, wide, factor); };
  if (ChangeInF32(context, x, change)) return;
  DispatchScalar(x.dtype(), [&]<class T>() {
    const T f = ScalarTraits<T>::FromDouble(factor);
    Transform<T>(x, [f](T value) { return value * f; });
  });
}

void DivideInto(const Context& context, Tensor& x, int64_t n) {
  const auto change = [&](const Context& f32, Tensor& wide) { DivideInto(f32, wide, n); };
  if (ChangeInF32(context, x, change)) return;
  DispatchScalar(x.dtype(), [&]<class T>() {
    Transform<T>(x, host::DivideBy<T>(ScalarTraits<T>::FromInt(n)));
  });
}

void DivideInto(const Context& context, Tensor& x, const Tensor& divisor) {
  const auto change = [&](const Context& f32, Tensor& wide) { DivideInto(f32, wide, divisor); };
  if (ChangeInF32(context, x, change)) return;
  DispatchScalar(x.dtype(), [&]<class T>() {
    Transform<T>(x, host::DivideBy<T>(ReadScalar<T>("divide", x, divisor)));
  });
}

void MultiplyInto(const Context& context, Tensor& x, const Tensor& factor) {
  const auto change = [&](const Context& f32, Tensor& wide) { MultiplyInto(f32, wide, factor); };
  if (ChangeInF32(context, x, change)) return;
  DispatchScalar(x.dtype(), [&]<class T>() {
    const T f = ReadScalar<T>("multiply", x, factor);
    Transform<T>(x, [f](T value) { return value * f; });
  });
}

Tensor Sum(const Context& context, const Tensor& x) {
  if (const host::InF32 f32(context, x.dtype()); f32.needed()) {
    return f32.Keep(Sum(f32.context(), f32.Widen(x)));
  }
  return DispatchScalar(x.dtype(), [&]<class T>() {
    const T* data = x.data<T>();
    T sum = host::Zero<T>();
    ForEachRun(x, x, [&](int64_t offset, int64_t, int64_t n) {
      for (int64_t i = 0; i < n; ++i) sum = sum + data[offset + i];
    });
    return MakeScalar(context, sum);
  });
}

Tensor SumOfSquares(const Context& context, const Tensor& x) {
  if (const host::InF32 f32(context, x.dtype()); f32.needed()) {
    return f32.Keep(SumOfSquares(f32.context(), f32.Widen(x)));
  }
  return DispatchScalar(x.dtype(), [&]<class T>() {
    const T* data = x.data<T>();
    T sum = host::Zero<T>();
    ForEachRun(x, x, [&](int64_t offset, int64_t, int64_t n) {
      for (int64_t i = 0; i < n; ++i) {
        sum = host::MultiplyAdd(data[offset + i], data[offset + i], sum);
      }
    });
    return MakeScalar(context, sum);
  });
}

Tensor SquareRoot(const Context& context, const Tensor& x) {
  return DispatchScalar(x.dtype(), [&]<class T>() {
    return MakeScalar(context, ScalarTraits<T>::Sqrt(ReadScalar<T>("square root", x, x)));
  });
}

Tensor ClipCoefficient(const Context& context, const Tensor& norm, double max_norm) {
  return DispatchScalar(norm.dtype(), [&]<class T>() {
    using Traits = ScalarTraits<T>;
    const T value = ReadScalar<T>("clip coefficient", norm, norm);
    return MakeScalar(context, Traits::ClipCoefficient(Traits::FromDouble(max_norm), value));
  });
}

int64_t CountNonFinite(const Tensor& x) {
  if (IsHalf(x.dtype())) return CountNonFinite(host::InF32(Context{}, x.dtype()).Widen(x));
  return DispatchScalar(x.dtype(), [&]<class T>() -> int64_t {
    // Only floating types have values that are not finite.
    if constexpr (std::floating_point<T>) {
      const T* data = x.data<T>();
      int64_t count = 0;
      ForEachRun(x, x, [&](int64_t offset, int64_t, int64_t n) {
        // x - x is 0 for a finite x and NaN for the others; this form vectorises.
        for (int64_t i = 0; i < n; ++i) {
          const T difference = data[offset + i] - data[offset + i];
          count += difference == T(0) ? 0 : 1;
        }
      });
      return count;
    } else {
      return 0;
    }
  });
}

Tensor Cast(const Context& context, const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x.Clone(context);
  if (!HoldsReals(x.dtype()) || !(HoldsReals(dtype) || IsExact(dtype))) {
    throw InvalidArgument("cast of {} to {}: only floating types convert, and to a field",
                          Name(x.dtype()), Name(dtype));
  }
  Tensor result = Tensor::Empty(context, dtype, x.shape());
  if (HoldsReals(dtype)) {
    host::Convert(x, result);
    return result;
  }
  const Tensor reals = Cast(context, x, DType::kF64).Contiguous(context);
  const double* from = reals.data<double>();
  DispatchScalar(dtype, [&]<class To>() {
    To* to = result.data<To>();
    for (int64_t i = 0; i < x.elements(); ++i) to[i] = ScalarTraits<To>::FromDouble(from[i]);
  });
  return result;
}

}  // namespace plumbline
