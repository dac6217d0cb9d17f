#include "kernels/optimizer.h"

#include <string_view>

#include "base/dtype.h"
#include "base/scalar.h"
#include "kernels/host/common.h"
#include "kernels/host/in_f32.h"

namespace plumbline {
namespace {

using host::One;

void CheckState(std::string_view op, const Tensor& parameter, const Tensor& other) {
  host::CheckSame(op, parameter, other);
  PL_CHECK(other.contiguous());
}

// The gradient of an f32 master weight may be in 16 bits.
void CheckGradient(std::string_view op, const Tensor& parameter, const Tensor& gradient) {
  host::CheckShape(op, "the gradient", gradient, parameter.shape());
  if (parameter.dtype() != DType::kF32 || !IsHalf(gradient.dtype())) {
    host::CheckDTypes(op, parameter, gradient);
  }
  PL_CHECK(gradient.contiguous());
}

// Calls f(gradient in T) with the gradient times the scale where there is one.
template <class T, class F>
void ForEachGradient(std::string_view op, const Tensor& gradient, const Tensor& scale, F f) {
  const T* g = gradient.data<T>();
  const int64_t n = gradient.elements();
  if (!scale.defined()) {
    for (int64_t i = 0; i < n; ++i) f(i, g[i]);
    return;
  }
  host::CheckDType(op, "the gradient scale", scale, gradient.dtype());
  host::CheckShape(op, "the gradient scale", scale, {});
  const T factor = *scale.data<T>();
  for (int64_t i = 0; i < n; ++i) f(i, g[i] * factor);
}

template <class T>
void AdamImpl(Tensor& parameter, const Tensor& gradient, Tensor& exp_avg, Tensor& exp_avg_sq,
              const AdamOptions& options, const Tensor& gradient_scale) {
  using Traits = ScalarTraits<T>;
  // Elements are taken in blocks, so that a field inverts all denominators of a block at once.
  constexpr size_t kBlock = 256;
  const T one = One<T>();
  const T beta1 = Traits::FromDouble(options.beta1);
  const T beta2 = Traits::FromDouble(options.beta2);
  const T fresh1 = one - beta1;
  const T fresh2 = one - beta2;
  const host::DivideBy<T> correct1(one - PowInt(beta1, options.step));
  const host::DivideBy<T> correct2(one - PowInt(beta2, options.step));
  const T lr = Traits::FromDouble(options.lr);
  const T decay = lr * Traits::FromDouble(options.weight_decay);
  const T eps = Traits::FromDouble(options.eps);
  T* p = parameter.data<T>();
  T* m = exp_avg.data<T>();
  T* v = exp_avg_sq.data<T>();
  T update[kBlock];
  T denominator[kBlock];
  const int64_t elements = parameter.elements();
  ForEachGradient<T>("adam", gradient, gradient_scale, [&](int64_t i, T g) {
    const size_t slot = static_cast<size_t>(i) % kBlock;
    m[i] = beta1 * m[i] + fresh1 * g;
    v[i] = beta2 * v[i] + fresh2 * g * g;
    update[slot] = correct1(m[i]);
    denominator[slot] = Traits::Sqrt(correct2(v[i])) + eps;
    if (slot + 1 < kBlock && i + 1 < elements) return;
    host::DivideAll<T>({update, slot + 1}, {denominator, slot + 1});
    T* first = p + i - static_cast<int64_t>(slot);
    for (size_t k = 0; k <= slot; ++k) first[k] = first[k] - decay * first[k] - lr * update[k];
  });
}

template <class T>
void SgdImpl(Tensor& parameter, const Tensor& gradient, Tensor& momentum_buffer,
             const SgdOptions& options, const Tensor& gradient_scale) {
  using Traits = ScalarTraits<T>;
  const T lr = Traits::FromDouble(options.lr);
  const T momentum = Traits::FromDouble(options.momentum);
  const T weight_decay = Traits::FromDouble(options.weight_decay);
  T* p = parameter.data<T>();
  if (options.momentum == 0) {
    ForEachGradient<T>("sgd", gradient, gradient_scale,
                       [=](int64_t i, T g) { p[i] = p[i] - lr * (g + weight_decay * p[i]); });
    return;
  }
  CheckState("sgd", parameter, momentum_buffer);
  T* v = momentum_buffer.data<T>();
  const bool first_step = options.step == 1;
  ForEachGradient<T>("sgd", gradient, gradient_scale, [=](int64_t i, T g) {
    const T direction = g + weight_decay * p[i];
    v[i] = first_step ? direction : momentum * v[i] + direction;
    p[i] = p[i] - lr * v[i];
  });
}

}  // namespace

void AdamStep(const Context& context, Tensor& parameter, const Tensor& gradient, Tensor& exp_avg,
              Tensor& exp_avg_sq, const AdamOptions& options, const Tensor& gradient_scale) {
  PL_CHECK(parameter.contiguous());
  PL_CHECK(options.step >= 1);
  CheckGradient("adam", parameter, gradient);
  CheckState("adam", parameter, exp_avg);
  CheckState("adam", parameter, exp_avg_sq);
  if (const host::InF32 f32(context, gradient.dtype()); f32.needed()) {
    Tensor p = f32.Widen(parameter);
    Tensor m = f32.Widen(exp_avg);
    Tensor v = f32.Widen(exp_avg_sq);
    AdamStep(f32.context(), p, f32.Widen(gradient), m, v, options, gradient_scale);
    f32.RoundInto(parameter, p);
    f32.RoundInto(exp_avg, m);
    f32.RoundInto(exp_avg_sq, v);
    return;
  }
  DispatchScalar(parameter.dtype(), [&]<class T>() {
    AdamImpl<T>(parameter, gradient, exp_avg, exp_avg_sq, options, gradient_scale);
  });
}

void SgdStep(const Context& context, Tensor& parameter, const Tensor& gradient,
             Tensor& momentum_buffer, const SgdOptions& options, const Tensor& gradient_scale) {
  PL_CHECK(parameter.contiguous());
  PL_CHECK(options.step >= 1);
  CheckGradient("sgd", parameter, gradient);
  if (const host::InF32 f32(context, gradient.dtype()); f32.needed()) {
    Tensor p = f32.Widen(parameter);
    Tensor v = f32.Widen(momentum_buffer);
    SgdStep(f32.context(), p, f32.Widen(gradient), v, options, gradient_scale);
    f32.RoundInto(parameter, p);
    f32.RoundInto(momentum_buffer, v);
    return;
  }
  DispatchScalar(parameter.dtype(), [&]<class T>() {
    SgdImpl<T>(parameter, gradient, momentum_buffer, options, gradient_scale);
  });
}

}  // namespace plumbline
