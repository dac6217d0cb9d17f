// Y = X W^T + b for a row-parallel W: each tensor-parallel rank holds a slice of the summed
// dimension.
//
// Shapes:   x_shard [S, B, F/tp], w_shard [H, F/tp], b [H] (replicated) -> y [S, B, H] ([S/tp, B,
//           H] with sequence parallelism).
// Comm:     forward one all_reduce over tp, backward none; with sequence parallelism forward one
//           reduce_scatter, backward one all_gather of dy.
// Numerics: partial products add in rank order; the bias is added once, after the sum. With
//           sequence parallelism the bias gradient is this rank's term of a sum over tp.
// Source:   Shoeybi et al. 2019, section 3; Megatron-Core tensor_parallel/layers.py,
//           RowParallelLinear.
#ifndef PLUMBLINE_PARALLEL_TENSOR_ROW_PARALLEL_LINEAR_H_
#define PLUMBLINE_PARALLEL_TENSOR_ROW_PARALLEL_LINEAR_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parallel/tensor/parameter.h"
#include "parallel/tensor/pass.h"
#include "parallel/tensor/rank_env.h"

namespace plumbline {

class RowParallelLinear {
 public:
  struct Options {
    int32_t layer = -1;
    std::string name;  // of the module, and of the activation that it makes
    int64_t input_size = 0;
    int64_t output_size = 0;
    bool bias = true;
    // Hand the bias back instead of adding it, so that the caller fuses it with what follows.
    bool skip_bias_add = false;
  };
  struct Saved {
    Tensor input;
  };
  struct Output {
    Tensor y;
    Tensor bias;  // [H]; undefined unless it is still to be added
  };

  RowParallelLinear(const RankEnv& env, const Options& options);
  RowParallelLinear(const RowParallelLinear&) = delete;
  RowParallelLinear& operator=(const RowParallelLinear&) = delete;

  Output Forward(const Pass& pass, const Tensor& x, Saved& saved) const;
  // Adds the gradients of weight and bias (whoever added it), returns that of x.
  Tensor Backward(const Pass& pass, const Tensor& dy, const Saved& saved);

  void AppendParameters(std::vector<Parameter*>& parameters);
  Parameter& weight() { return weight_; }
  std::optional<Parameter>& bias() { return bias_; }

 private:
  const RankEnv& env_;
  Site site_;
  bool skip_bias_add_;
  bool bias_before_ = false;  // this rank adds it to its partial product
  bool bias_after_ = false;   // it is added to the sum
  Parameter weight_;
  std::optional<Parameter> bias_;
};

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_TENSOR_ROW_PARALLEL_LINEAR_H_
