// AdamW or SGD over a rank's pieces of the parameters.
//
// Comm:     none: copies of a parameter get equal gradients and stay bit-equal.
// Numerics: kernels/optimizer.h. The clip coefficient multiplies the gradient as it is read; main
//           gradients stay unclipped.
// Source:   Megatron-Core optimizer/optimizer.py; weight decay on parameters of two dimensions
//           alone, optimizer/__init__.py.
#ifndef PLUMBLINE_PARALLEL_OPTIMIZER_OPTIMIZER_H_
#define PLUMBLINE_PARALLEL_OPTIMIZER_OPTIMIZER_H_

#include <cstdint>
#include <vector>

#include "parallel/tensor/parameter.h"

namespace plumbline {

class Optimizer {
 public:
  Optimizer(const RankEnv& env, const std::vector<Parameter*>& parameters);

  // `gradient_scale`: the clip coefficient, 0-d; undefined without clipping.
  void Step(int64_t step, const Tensor& gradient_scale);
  // Shows each parameter and its moments as they are after `step`.
  void Show(int64_t step) const;

 private:
  struct State {
    Parameter* parameter;
    Tensor exp_avg;     // SGD: the momentum buffer; undefined without momentum
    Tensor exp_avg_sq;  // undefined with SGD
  };

  const RankEnv& env_;
  std::vector<State> states_;
};

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_OPTIMIZER_OPTIMIZER_H_
