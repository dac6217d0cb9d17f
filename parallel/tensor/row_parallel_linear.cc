#include "parallel/tensor/row_parallel_linear.h"

#include <utility>

#include "kernels/elementwise.h"
#include "kernels/matmul.h"
#include "parallel/sequence/regions.h"

namespace plumbline {

RowParallelLinear::RowParallelLinear(const RankEnv& env, const Options& options)
    : env_(env),
      site_(MakeSite(options.layer, options.name)),
      skip_bias_add_(options.skip_bias_add),
      weight_(MakeParameter(env, options.layer, options.name + ".weight",
                            {options.output_size, options.input_size}, {BlockCut()(1)})) {
  if (!options.bias) return;
  bias_ = MakeParameter(env, options.layer, options.name + ".bias", {options.output_size}, {});
  bias_->sequence_parallel = env.sequence_parallel();
  const auto& adds_before = env.policies().bias_before_reduction;
  bias_before_ = adds_before(options.name, env.tp_rank());
  bias_after_ = true;
  for (int rank = 0; rank < env.tp_size(); ++rank) {
    if (adds_before(options.name, rank)) bias_after_ = false;
  }
}

RowParallelLinear::Output RowParallelLinear::Forward(const Pass& pass, const Tensor& x,
                                                     Saved& saved) const {
  const Context& context = env_.context();
  saved.input = x;
  Tensor partial = MatmulNT(context, x, weight_.value);
  if (bias_before_) partial = AddBias(context, partial, bias_->value);
  Tensor y = LeaveTensorParallel(env_, std::move(partial), SiteAt(site_, pass, Quantity::kValue));
  if (!bias_after_) return {std::move(y), {}};
  if (skip_bias_add_) return {std::move(y), bias_->value};
  return {AddBias(context, y, bias_->value), {}};
}

Tensor RowParallelLinear::Backward(const Pass& pass, const Tensor& dy, const Saved& saved) {
  const Context& context = env_.context();
  const Tensor whole_dy = EnterTensorParallel(env_, dy, SiteAt(site_, pass, Quantity::kGradient));
  AddNowOrLater(pass, [this, pass, &context, dy, whole_dy, input = saved.input] {
    weight_.AddGradient(env_, pass, MatmulTN(context, whole_dy, input));
    if (bias_) bias_->AddGradient(env_, pass, SumRows(context, dy));
  });
  return MatmulNN(context, whole_dy, weight_.value);
}

void RowParallelLinear::AppendParameters(std::vector<Parameter*>& parameters) {
  parameters.push_back(&weight_);
  if (bias_) parameters.push_back(&*bias_);
}

}  // namespace plumbline
