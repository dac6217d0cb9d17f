#include "scenarios/bounds.h"

#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "base/compare.h"
#include "base/error.h"

namespace plumbline {
namespace {

constexpr double kBoundF64 = 1e-11;
constexpr double kGradientRounding = 1e-15;  // of G, in f64

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
  if (extra == nullptr) return 0;
  const size_t at = static_cast<size_t>(global_index) % extra->size();
  return static_cast<double>((*extra)[at]) * RoundingRelativeToF64(dtype);
}

AdamExemptionRule::AdamExemptionRule(const TrainConfig& train) : train_(train) {}

void AdamExemptionRule::AddGradient(const std::string& parameter, const Tensor& main_grad) {
  if (train_.optimizer != OptimizerKind::kAdam || IsExact(main_grad.dtype())) return;
  followed_[parameter].gradient = main_grad;
}

void AdamExemptionRule::Update(double gradient, Moments& moments) const {
  moments.mean = train_.adam_beta1 * moments.mean + (1 - train_.adam_beta1) * gradient;
  moments.square =
      train_.adam_beta2 * moments.square + (1 - train_.adam_beta2) * gradient * gradient;
}

AdamExemption AdamExemptionRule::AfterUpdate(const std::string& parameter) {
  const auto found = followed_.find(parameter);
  if (found == followed_.end()) return {};
  Followed& of = found->second;
  PL_CHECK(of.gradient.defined());
  const Tensor gradient = std::exchange(of.gradient, Tensor());
  const auto elements = static_cast<size_t>(gradient.elements());
  of.elements.resize(elements);
  ++of.step;
  Update(clip_coefficient_ * MaxAbs(gradient), of.largest);
  const auto steps = static_cast<double>(of.step);
  const double mean_correction = 1 / (1 - std::pow(train_.adam_beta1, steps));
  const double square_correction = 1 / (1 - std::pow(train_.adam_beta2, steps));
  const double d1 = kGradientRounding * of.largest.mean * mean_correction;
  const double d2 = kGradientRounding * std::sqrt(of.largest.square * square_correction);
  const double* g = gradient.data<double>();
  auto extra = std::make_shared<std::vector<float>>(elements, 0.0F);
  if (of.extra != nullptr) *extra = *of.extra;
  for (size_t i = 0; i < elements; ++i) {
    Moments& moments = of.elements[i];
    Update(clip_coefficient_ * g[i], moments);
    const double mean = std::abs(moments.mean * mean_correction);
    const double divisor = std::sqrt(moments.square * square_correction) + train_.adam_eps;
    (*extra)[i] += static_cast<float>(train_.lr * (d1 + mean * d2 / divisor) / divisor);
  }
  of.extra = std::move(extra);
  return {of.extra};
}

AdamExemption AdamExemptionRule::OfActivation(const std::string& tensor, const Shape& shape) const {
  constexpr std::string_view kQkv = "self_attention.linear_qkv";
  constexpr std::string_view kKey = "self_attention.key";
  const bool key = tensor.ends_with(kKey);
  if (!key && !tensor.ends_with(kQkv)) return {};
  const std::string layer = tensor.substr(0, tensor.size() - (key ? kKey : kQkv).size());
  const auto found = followed_.find(layer + std::string(kQkv) + ".bias");
  if (found == followed_.end() || found->second.extra == nullptr) return {};
  if (!key) return {found->second.extra};
  // Rows of linear_qkv, group by group: queries, key, value.
  const std::vector<float>& rows = *found->second.extra;
  const auto groups = static_cast<size_t>(shape[2]);
  const auto channels = static_cast<size_t>(shape[3]);
  const size_t rows_per_group = rows.size() / groups;
  auto extra = std::make_shared<std::vector<float>>();
  for (size_t group = 0; group < groups; ++group) {
    const auto value =
        rows.begin() + static_cast<std::ptrdiff_t>((group + 1) * rows_per_group - channels);
    extra->insert(extra->end(), value - static_cast<std::ptrdiff_t>(channels), value);
  }
  return {extra};
}

}  // namespace plumbline
