// Y = X W^T + b for a column-parallel W, on one tensor-parallel rank.
//
// Shapes:   x [S, B, H] ([S/tp, B, H] with sequence parallelism), w_shard [F/tp, H], b_shard [F/tp]
//           -> y_shard [S, B, F/tp]. How the F rows are cut is the caller's (CutAlong).
// Comm:     forward none; backward one all_reduce of dx over tp. With sequence parallelism forward
//           one all_gather of x; backward the all_gather again, for dW, and one reduce_scatter of
//           dx.
// Numerics: one k order; bit-equal to the same columns of the unsharded product.
// Source:   Shoeybi et al. 2019, section 3; Megatron-Core tensor_parallel/layers.py,
//           ColumnParallelLinear.
#ifndef PLUMBLINE_PARALLEL_TENSOR_COLUMN_PARALLEL_LINEAR_H_
#define PLUMBLINE_PARALLEL_TENSOR_COLUMN_PARALLEL_LINEAR_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parallel/tensor/parameter.h"
#include "parallel/tensor/pass.h"
#include "parallel/tensor/rank_env.h"

namespace plumbline {

class ColumnParallelLinear {
 public:
  struct Options {
    int32_t layer = -1;
    std::string name;          // of the module
    std::string input_tensor;  // the activation that comes in; its collectives carry this name
    int64_t input_size = 0;
    int64_t output_size = 0;
    CutAlong cut;
    bool bias = true;
  };
  struct Saved {
    Tensor input;
  };

  ColumnParallelLinear(const RankEnv& env, const Options& options);
  // With a weight that another module owns, and no bias: tied embeddings.
  ColumnParallelLinear(const RankEnv& env, const Options& options, Parameter& tied_weight);
  ColumnParallelLinear(const ColumnParallelLinear&) = delete;
  ColumnParallelLinear& operator=(const ColumnParallelLinear&) = delete;

  Tensor Forward(const Pass& pass, const Tensor& x, Saved& saved) const;
  // Adds the gradients of weight and bias, returns that of x.
  Tensor Backward(const Pass& pass, const Tensor& dy, const Saved& saved);

  // The parameters that the module owns.
  void AppendParameters(std::vector<Parameter*>& parameters);
  Parameter& weight() { return tied_weight_ != nullptr ? *tied_weight_ : *own_weight_; }
  const Parameter& weight() const { return tied_weight_ != nullptr ? *tied_weight_ : *own_weight_; }
  std::optional<Parameter>& bias() { return bias_; }

 private:
  const RankEnv& env_;
  Site input_site_;
  std::optional<Parameter> own_weight_;
  Parameter* tied_weight_ = nullptr;
  std::optional<Parameter> bias_;
};

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_TENSOR_COLUMN_PARALLEL_LINEAR_H_
