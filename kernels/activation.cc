#include "kernels/activation.h"

#include "base/dtype.h"
#include "base/scalar.h"
#include "kernels/host/common.h"
#include "kernels/host/in_f32.h"

namespace plumbline {
namespace {

using host::One;

// Each kind has Value(x) and Slope(x), the derivative.
template <class T>
struct GeluTanh {
  using Traits = ScalarTraits<T>;
  T root = Traits::FromDouble(0.7978845608028654);  // sqrt(2 / pi)
  T cubic = Traits::FromDouble(0.044715);
  T one = One<T>();
  T half = Traits::FromDouble(0.5);
  T three = Traits::FromInt(3);

  T Inner(T x) const { return Traits::Tanh(root * (x + cubic * x * x * x)); }
  T Value(T x) const { return half * x * (one + Inner(x)); }
  T Slope(T x) const {
    const T t = Inner(x);
    const T inner_slope = root * (one + three * cubic * x * x);
    return half * (one + t) + half * x * (one - t * t) * inner_slope;
  }
};

template <class T>
struct GeluErf {
  using Traits = ScalarTraits<T>;
  T Value(T x) const { return x * Traits::NormalCdf(x); }
  T Slope(T x) const { return Traits::NormalCdf(x) + x * Traits::NormalPdf(x); }
};

template <class T>
struct SquaredRelu {
  using Traits = ScalarTraits<T>;
  T two = Traits::FromInt(2);
  T Value(T x) const {
    const T positive = Traits::Relu(x);
    return positive * positive;
  }
  T Slope(T x) const { return two * Traits::Relu(x) * Traits::Step(x); }
};

template <class T, class Function>
Tensor ForwardElements(const Context& context, const Tensor& x, const Function& f) {
  const host::Packed packed(context, x);
  Tensor result = Tensor::Empty(context, x.dtype(), x.shape());
  const T* in = packed.data<T>();
  T* out = result.data<T>();
  const int64_t n = x.elements();
  for (int64_t i = 0; i < n; ++i) out[i] = f.Value(in[i]);
  return result;
}

template <class T, class Function>
Tensor BackwardElements(const Context& context, const Tensor& dy, const Tensor& x,
                        const Function& f) {
  const host::Packed packed(context, x);
  const host::Packed dy_packed(context, dy);
  Tensor result = Tensor::Empty(context, x.dtype(), x.shape());
  const T* in = packed.data<T>();
  const T* gradient = dy_packed.data<T>();
  T* out = result.data<T>();
  const int64_t n = x.elements();
  for (int64_t i = 0; i < n; ++i) out[i] = gradient[i] * f.Slope(in[i]);
  return result;
}

// Half of the last dimension; gate and up halves stand side by side.
Shape HalfShape(const Tensor& x) {
  host::RowsOf("swiglu", x);
  Shape shape = x.shape();
  if (shape.back() % 2 != 0) {
    throw InvalidArgument("swiglu: x is {}; expected an even last dimension", ToString(shape));
  }
  shape.back() /= 2;
  return shape;
}

template <class T>
Tensor SwigluForward(const Context& context, const Tensor& x) {
  Tensor result = Tensor::Empty(context, x.dtype(), HalfShape(x));
  const host::Packed packed(context, x);
  const int64_t rows = host::RowsOf("swiglu", x);
  const int64_t n = x.dim(-1) / 2;
  for (int64_t row = 0; row < rows; ++row) {
    const T* gate = packed.data<T>() + row * 2 * n;
    const T* up = gate + n;
    T* out = result.data<T>() + row * n;
    for (int64_t i = 0; i < n; ++i) out[i] = gate[i] * ScalarTraits<T>::Sigmoid(gate[i]) * up[i];
  }
  return result;
}

template <class T>
Tensor SwigluBackward(const Context& context, const Tensor& dy, const Tensor& x) {
  host::CheckShape("swiglu backward", "dy", dy, HalfShape(x));
  Tensor result = Tensor::Empty(context, x.dtype(), x.shape());
  const host::Packed packed(context, x);
  const host::Packed dy_packed(context, dy);
  const int64_t rows = host::RowsOf("swiglu", x);
  const int64_t n = x.dim(-1) / 2;
  const T one = One<T>();
  for (int64_t row = 0; row < rows; ++row) {
    const T* gate = packed.data<T>() + row * 2 * n;
    const T* up = gate + n;
    const T* gradient = dy_packed.data<T>() + row * n;
    T* dgate = result.data<T>() + row * 2 * n;
    T* dup = dgate + n;
    for (int64_t i = 0; i < n; ++i) {
      const T s = ScalarTraits<T>::Sigmoid(gate[i]);
      const T slope = s * (one + gate[i] * (one - s));
      dgate[i] = gradient[i] * up[i] * slope;
      dup[i] = gradient[i] * gate[i] * s;
    }
  }
  return result;
}

}  // namespace

Tensor ActivationForward(const Context& context, Activation kind, const Tensor& x) {
  if (const host::InF32 f32(context, x.dtype()); f32.needed()) {
    return f32.Round(ActivationForward(f32.context(), kind, f32.Widen(x)));
  }
  return DispatchScalar(x.dtype(), [&]<class T>() -> Tensor {
    switch (kind) {
      case Activation::kGeluTanh:
        return ForwardElements<T>(context, x, GeluTanh<T>());
      case Activation::kGeluErf:
        return ForwardElements<T>(context, x, GeluErf<T>());
      case Activation::kSquaredRelu:
        return ForwardElements<T>(context, x, SquaredRelu<T>());
      case Activation::kSwiglu:
        return SwigluForward<T>(context, x);
    }
    throw Internal("activation {} is not in the table", static_cast<int>(kind));
  });
}

Tensor ActivationBackward(const Context& context, Activation kind, const Tensor& dy,
                          const Tensor& x) {
  host::CheckDTypes("activation backward", dy, x);
  if (kind != Activation::kSwiglu) host::CheckSame("activation backward", dy, x);
  if (const host::InF32 f32(context, x.dtype()); f32.needed()) {
    return f32.Round(ActivationBackward(f32.context(), kind, f32.Widen(dy), f32.Widen(x)));
  }
  return DispatchScalar(x.dtype(), [&]<class T>() -> Tensor {
    switch (kind) {
      case Activation::kGeluTanh:
        return BackwardElements<T>(context, dy, x, GeluTanh<T>());
      case Activation::kGeluErf:
        return BackwardElements<T>(context, dy, x, GeluErf<T>());
      case Activation::kSquaredRelu:
        return BackwardElements<T>(context, dy, x, SquaredRelu<T>());
      case Activation::kSwiglu:
        return SwigluBackward<T>(context, dy, x);
    }
    throw Internal("activation {} is not in the table", static_cast<int>(kind));
  });
}

}  // namespace plumbline
