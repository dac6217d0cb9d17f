#include "kernels/elementwise.h"

#include <cmath>
#include <concepts>

#include "base/scalar.h"
#include "kernels/host/common.h"

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

template <class From, class To>
void CastRun(const From* from, To* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<To>(from[i]);
}

}  // namespace

Tensor Add(const Context& context, const Tensor& a, const Tensor& b) {
  CheckSame("add", a, b);
  return DispatchScalar(a.dtype(), [&]<class T>() {
    return Combine<T>(context, a, b, [](T x, T y) { return x + y; });
  });
}

Tensor Subtract(const Context& context, const Tensor& a, const Tensor& b) {
  CheckSame("subtract", a, b);
  return DispatchScalar(a.dtype(), [&]<class T>() {
    return Combine<T>(context, a, b, [](T x, T y) { return x - y; });
  });
}

void AddInto(const Context& context, Tensor& target, const Tensor& source) {
  (void)context;
  CheckSame("add into", target, source);
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
  (void)context;
  DispatchScalar(x.dtype(), [&]<class T>() {
    const T f = ScalarTraits<T>::FromDouble(factor);
    Transform<T>(x, [f](T value) { return value * f; });
  });
}

void DivideInto(const Context& context, Tensor& x, int64_t n) {
  (void)context;
  DispatchScalar(x.dtype(), [&]<class T>() {
    Transform<T>(x, host::DivideBy<T>(ScalarTraits<T>::FromInt(n)));
  });
}

void DivideInto(const Context& context, Tensor& x, const Tensor& divisor) {
  (void)context;
  DispatchScalar(x.dtype(), [&]<class T>() {
    Transform<T>(x, host::DivideBy<T>(ReadScalar<T>("divide", x, divisor)));
  });
}

void MultiplyInto(const Context& context, Tensor& x, const Tensor& factor) {
  (void)context;
  DispatchScalar(x.dtype(), [&]<class T>() {
    const T f = ReadScalar<T>("multiply", x, factor);
    Transform<T>(x, [f](T value) { return value * f; });
  });
}

Tensor Sum(const Context& context, const Tensor& x) {
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
  const host::Packed packed(context, x);
  Tensor result = Tensor::Empty(context, dtype, x.shape());
  DispatchScalar(x.dtype(), [&]<class From>() {
    DispatchScalar(dtype, [&]<class To>() {
      if constexpr (std::floating_point<From> && std::floating_point<To>) {
        CastRun(packed.data<From>(), result.data<To>(), x.elements());
      } else if constexpr (std::floating_point<From> && kIsField<To>) {
        const From* from = packed.data<From>();
        To* to = result.data<To>();
        for (int64_t i = 0; i < x.elements(); ++i) to[i] = ScalarTraits<To>::FromDouble(from[i]);
      } else {
        throw InvalidArgument("cast of {} to {}: only floating types convert, and to a field",
                              Name(x.dtype()), Name(dtype));
      }
    });
  });
  return result;
}

}  // namespace plumbline
