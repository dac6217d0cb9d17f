#include "kernels/host/in_f32.h"

#include "base/error.h"

namespace plumbline::host {

void Convert(const Tensor& from, Tensor& to) {
  DispatchReal(from.dtype(), [&]<class From>() {
    DispatchReal(to.dtype(), [&]<class To>() {
      const From* source = from.data<From>();
      To* target = to.data<To>();
      ForEachRun(from, to, [&](int64_t from_offset, int64_t to_offset, int64_t n) {
        const From* a = source + from_offset;
        To* b = target + to_offset;
        // No two of these types convert but through f32 or f64, one of which holds the source.
        using Exact = std::conditional_t<std::is_same_v<From, double>, double, float>;
        for (int64_t i = 0; i < n; ++i) b[i] = static_cast<To>(static_cast<Exact>(a[i]));
      });
    });
  });
}

Tensor InF32::Widen(const Tensor& x) const {
  if (!x.defined() || !IsHalf(x.dtype())) return x;
  Tensor result = Tensor::Empty(widened_, DType::kF32, x.shape(), MemoryCategory::kOther);
  Convert(x, result);
  return result;
}

Tensor InF32::Round(const Tensor& result) const {
  if (!result.defined()) return result;
  Tensor rounded = Tensor::Empty(context_, dtype_, result.shape());
  Convert(result, rounded);
  return rounded;
}

Tensor InF32::Keep(const Tensor& result) const {
  return result.defined() ? result.Clone(context_) : result;
}

void InF32::RoundInto(Tensor& target, const Tensor& result) const {
  if (!target.defined() || target.SharesStorage(result)) return;
  Convert(result, target);
}

}  // namespace plumbline::host
