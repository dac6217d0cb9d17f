#include "scenarios/accumulation.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "base/compare.h"
#include "base/context.h"
#include "kernels/elementwise.h"
#include "scenarios/index_text.h"

namespace plumbline {
namespace {

bool SameValue(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

// Empty when main_grad has the values that are due. A dtype that is not due is no matter of sums.
std::string WhatDiffers(const Tensor& main_grad, const Tensor& due) {
  if (main_grad.shape() != due.shape()) {
    return fmt::format("main_grad has shape {}, the gradients {}", ToString(main_grad.shape()),
                       ToString(due.shape()));
  }
  if (main_grad.dtype() == due.dtype() && BitEqual(main_grad, due)) return "";
  const std::vector<double> actual = Cast(Context{}, main_grad, DType::kF64).ToVector<double>();
  const std::vector<double> expected = Cast(Context{}, due, DType::kF64).ToVector<double>();
  for (size_t i = 0; i < actual.size(); ++i) {
    if (SameValue(actual[i], expected[i])) continue;
    return fmt::format(
        "{} main_grad holds {} at {} of this rank's piece; the gradients so far add up, in order, "
        "to {} in {}",
        Name(main_grad.dtype()), actual[i], IndexText(static_cast<int64_t>(i), due.shape()),
        expected[i], Name(due.dtype()));
  }
  return "";
}

}  // namespace

void AccumulationChecker::Observe(int rank, const Site& site, const Tensor& gradient,
                                  const Tensor& main_grad) {
  Sum& sum = sums_[{rank, site.chunk, site.tensor}];
  if (sum.wrong) return;
  const Context context;
  if (sum.step != site.step) {
    sum.step = site.step;
    sum.value = Tensor::Zeros(context, due_, gradient.shape(), MemoryCategory::kOther);
  }
  AddInto(context, sum.value, due_ == DType::kF32 ? gradient : Cast(context, gradient, due_));
  std::string difference = WhatDiffers(main_grad, sum.value);
  if (difference.empty()) return;
  sum.wrong = true;
  sum.value = Tensor();
  for (AccumulationFault& fault : faults_) {
    if (!(fault.site == site)) continue;
    fault.ranks.push_back(rank);
    return;
  }
  faults_.push_back({site, {rank}, std::move(difference)});
}

}  // namespace plumbline
