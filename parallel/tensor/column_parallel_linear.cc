#include "parallel/tensor/column_parallel_linear.h"

#include "kernels/elementwise.h"
#include "kernels/matmul.h"
#include "parallel/sequence/regions.h"

namespace plumbline {

ColumnParallelLinear::ColumnParallelLinear(const RankEnv& env, const Options& options)
    : env_(env), input_site_(MakeSite(options.layer, options.input_tensor)) {
  own_weight_ = MakeParameter(env, options.layer, options.name + ".weight",
                              {options.output_size, options.input_size}, {options.cut(0)});
  if (options.bias) {
    bias_ = MakeParameter(env, options.layer, options.name + ".bias", {options.output_size},
                          {options.cut(0)});
  }
}

ColumnParallelLinear::ColumnParallelLinear(const RankEnv& env, const Options& options,
                                           Parameter& tied_weight)
    : env_(env),
      input_site_(MakeSite(options.layer, options.input_tensor)),
      tied_weight_(&tied_weight) {}

Tensor ColumnParallelLinear::Forward(const Pass& pass, const Tensor& x, Saved& saved) const {
  saved.input = x;
  const Tensor whole_x = EnterTensorParallel(env_, x, SiteAt(input_site_, pass, Quantity::kValue));
  const Tensor y = MatmulNT(env_.context(), whole_x, weight().value);
  return bias_ ? AddBias(env_.context(), y, bias_->value) : y;
}

Tensor ColumnParallelLinear::Backward(const Pass& pass, const Tensor& dy, const Saved& saved) {
  const Context& context = env_.context();
  // Only this rank's rows were kept; dW needs all of them.
  const Tensor whole_x =
      EnterTensorParallel(env_, saved.input, SiteAt(input_site_, pass, Quantity::kValue));
  Tensor dx = LeaveTensorParallel(env_, MatmulNN(context, dy, weight().value),
                                  SiteAt(input_site_, pass, Quantity::kGradient));
  AddNowOrLater(pass, [this, pass, &context, dy, whole_x] {
    weight().AddGradient(env_, pass, MatmulTN(context, dy, whole_x));
    if (bias_) bias_->AddGradient(env_, pass, SumRows(context, dy));
  });
  return dx;
}

void ColumnParallelLinear::AppendParameters(std::vector<Parameter*>& parameters) {
  if (own_weight_) parameters.push_back(&*own_weight_);
  if (bias_) parameters.push_back(&*bias_);
}

}  // namespace plumbline
