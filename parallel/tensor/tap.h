// A tagged point of the model: shows an activation and its gradient to the probe.
//
// Errors:   Internal when what is shown has not the shape of the rank's piece.
#ifndef PLUMBLINE_PARALLEL_TENSOR_TAP_H_
#define PLUMBLINE_PARALLEL_TENSOR_TAP_H_

#include <cstdint>
#include <optional>
#include <string>

#include "base/probe.h"
#include "parallel/tensor/pass.h"
#include "parallel/tensor/rank_env.h"

namespace plumbline {

// The layout of a logical tensor on this rank.
ObservedLayout MakeLayout(const RankEnv& env, LogicalTensor tensor);
// The same layout for a tensor of another name: index maps are built once per kind of activation.
ObservedLayout Named(ObservedLayout layout, std::string name);

class Tap {
 public:
  // `gradient_layout` where it differs from the value's: copies of a value may have gradients that
  // are terms of a sum.
  Tap(int32_t layer, ObservedLayout layout,
      std::optional<ObservedLayout> gradient_layout = std::nullopt);

  const std::string& name() const { return site_.tensor; }
  // The logical id of a collective that moves this tensor.
  Site At(const Pass& pass, Quantity quantity) const { return SiteAt(site_, pass, quantity); }
  void ShowValue(const RankEnv& env, const Pass& pass, const Tensor& local) const;
  void ShowGradient(const RankEnv& env, const Pass& pass, const Tensor& local) const;

 private:
  Site site_;
  ObservedLayout layout_;
  std::optional<ObservedLayout> gradient_layout_;
};

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_TENSOR_TAP_H_
