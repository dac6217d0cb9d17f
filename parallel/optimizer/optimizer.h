// AdamW or SGD over what a rank owns of the parameters.
//
// Master weights and moments are of RunConfig::main_dtype. Where the parameters are narrower, the
// rank keeps masters beside them and rounds them into the parameters after each update; otherwise
// the parameters are the masters.
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
  // Shows masters, moments, and parameters that are whole on this rank, as they are after `step`.
  void Show(int64_t step) const;

 private:
  struct State {
    Parameter* parameter;
    Tensor master;      // undefined where the parameter is its own
    Tensor exp_avg;     // SGD: the momentum buffer; undefined without momentum
    Tensor exp_avg_sq;  // undefined with SGD
  };

  void Update(int64_t step, const Tensor& gradient_scale, State& state);

  const RankEnv& env_;
  const Group shards_;  // ranks that share the parameters out
  std::vector<State> states_;
};

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_OPTIMIZER_OPTIMIZER_H_
