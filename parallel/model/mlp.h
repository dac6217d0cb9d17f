// The feed-forward block: linear_fc1, activation, linear_fc2, its inner dimension split over tp.
//
// With SwiGLU linear_fc1 holds gate rows, then up rows; each half is cut by itself, so that a
// rank's gate meets its own up.
//
// Shapes:   x [S, B, H] ([S/tp, B, H] with sequence parallelism) -> the same, complete but for the
//           bias, which is handed on.
// Comm:     that of linear_fc1 and linear_fc2.
// Source:   Megatron-Core transformer/mlp.py.
#ifndef PLUMBLINE_PARALLEL_MODEL_MLP_H_
#define PLUMBLINE_PARALLEL_MODEL_MLP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/model/activation_layouts.h"
#include "parallel/tensor/column_parallel_linear.h"
#include "parallel/tensor/row_parallel_linear.h"
#include "parallel/tensor/tap.h"

namespace plumbline {

class Mlp {
 public:
  struct Saved {
    ColumnParallelLinear::Saved linear_fc1;
    Tensor fc1;
    RowParallelLinear::Saved linear_fc2;
  };

  // `prefix` is "decoder.layers.N."; its input is "<prefix>pre_mlp_layernorm".
  Mlp(const RankEnv& env, const ActivationLayouts& layouts, int32_t layer,
      const std::string& prefix);

  RowParallelLinear::Output Forward(const Pass& pass, const Tensor& x, Saved& saved) const;
  Tensor Backward(const Pass& pass, const Tensor& dy, const Saved& saved);

  void AppendParameters(std::vector<Parameter*>& parameters);

 private:
  const RankEnv& env_;
  Tap fc1_tap_;
  Tap activation_tap_;
  ColumnParallelLinear linear_fc1_;
  RowParallelLinear linear_fc2_;
};

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_MODEL_MLP_H_
