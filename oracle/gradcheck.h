// The oracle's check of itself: its gradient against forward-mode derivatives of its own forward.
//
// For each parameter tensor and a random direction v, the directional derivative of the step's loss
// by dual numbers (dual.h) must equal <gradient, v>.
//
// Numerics: error = |jvp - dot| / max(|jvp|, ||gradient||); v is standard normal, so ||gradient||
// is
//           the size that <gradient, v> has. 0/0 is 0; a scalar that is no float must be equal.
// Errors:   InvalidArgument when a parameter or batch does not fit the configuration.
#ifndef PLUMBLINE_ORACLE_GRADCHECK_H_
#define PLUMBLINE_ORACLE_GRADCHECK_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/batch.h"
#include "base/config.h"
#include "base/init.h"

namespace plumbline {

template <class T>
struct GradientCheck {
  std::string tensor;
  T jvp;  // by dual numbers
  T dot;  // <gradient, v>
  double error = 0;
};

template <class T>
struct GradientCheckOptions {
  int64_t step = 1;        // whose batches are used
  uint64_t seed = 1;       // of the directions
  int64_t directions = 1;  // for each tensor; its worst is reported
  // Plants a mistake: called with each tensor's gradient before it is checked. Empty: none.
  std::function<void(const std::string& tensor, std::span<T> gradient)> edit;
};

// One entry for each parameter tensor, in the order of docs/sites.md. Instantiated for double and
// M61.
template <class T>
std::vector<GradientCheck<T>> CheckGradients(const TransformerConfig& model,
                                             const TrainConfig& train,
                                             const ParameterSource& parameters,
                                             const BatchSource& batches,
                                             const GradientCheckOptions<T>& options = {});

}  // namespace plumbline

#endif  // PLUMBLINE_ORACLE_GRADCHECK_H_
