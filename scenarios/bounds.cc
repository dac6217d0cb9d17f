#include "scenarios/bounds.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/compare.h"
#include "base/error.h"

namespace plumbline {
namespace {

constexpr double kBoundF64 = 1e-11;
constexpr double kNegligibleGradient = 1e-12;  // of G, in f64
constexpr double kGradientRounding = 1e-15;    // of G, in f64

}  // namespace

DType ReferenceDType(DType dtype) { return IsExact(dtype) ? dtype : DType::kF64; }

double DeviationBound(DType dtype) {
  if (IsExact(dtype)) return 0;
  if (dtype != DType::kF64 && dtype != DType::kF32) {
    throw InvalidArgument("dtype {} has no bound of deviation; expected f64, f32 or a field",
                          Name(dtype));
  }
  return kBoundF64 * RoundingRelativeToF64(dtype);
}

double RoundingRelativeToF64(DType dtype) {
  return dtype == DType::kF32 ? static_cast<double>(std::numeric_limits<float>::epsilon()) /
                                    std::numeric_limits<double>::epsilon()
                              : 1.0;
}

double AdamExemption::ExtraAt(int64_t global_index, DType dtype) const {
  if (largest_gradient == nullptr) return 0;
  const double rounding = RoundingRelativeToF64(dtype);
  const double gradient = (*largest_gradient)[static_cast<size_t>(global_index)];
  return gradient < kNegligibleGradient * rounding ? extra * rounding : 0;
}

AdamExemptionRule::AdamExemptionRule(const TrainConfig& train)
    : adam_(train.optimizer == OptimizerKind::kAdam),
      extra_per_gradient_(train.lr * kGradientRounding / train.adam_eps) {}

void AdamExemptionRule::AddGradient(const std::string& parameter, const Tensor& main_grad) {
  if (!adam_ || IsExact(main_grad.dtype())) return;
  const double largest = MaxAbs(main_grad);
  const double* gradient = main_grad.data<double>();
  const auto elements = static_cast<size_t>(main_grad.elements());
  auto now = std::make_shared<std::vector<float>>(elements);
  for (size_t i = 0; i < elements; ++i) {
    // A gradient that is zero as a whole has no scale: none of it was rounded.
    (*now)[i] = largest > 0 ? static_cast<float>(std::abs(gradient[i]) / largest) : 0.0F;
  }
  AdamExemption& exemption = exemptions_[parameter];
  if (exemption.largest_gradient != nullptr) {
    const std::vector<float>& before = *exemption.largest_gradient;
    PL_CHECK(before.size() == elements);
    for (size_t i = 0; i < elements; ++i) (*now)[i] = std::max((*now)[i], before[i]);
  }
  exemption.largest_gradient = std::move(now);
  exemption.extra += extra_per_gradient_ * largest;
}

AdamExemption AdamExemptionRule::Of(const std::string& parameter) const {
  const auto found = exemptions_.find(parameter);
  return found == exemptions_.end() ? AdamExemption{} : found->second;
}

}  // namespace plumbline
