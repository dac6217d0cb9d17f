#include "parallel/model/bias_dropout_add.h"

#include "kernels/elementwise.h"

namespace plumbline {

BiasDropoutAdd::BiasDropoutAdd(const RankEnv& env, const ActivationLayouts& layouts, int32_t layer,
                               const std::string& name, const std::string& linear_name)
    : env_(env),
      linear_tap_(layer, Named(layouts.hidden, linear_name)),
      output_(layer, Named(layouts.hidden, name)),
      dropout_(env, name + ".dropout") {}

Tensor BiasDropoutAdd::Forward(const Pass& pass, const RowParallelLinear::Output& linear,
                               const Tensor& residual) const {
  const Context& context = env_.context();
  const Tensor y = linear.bias.defined() ? AddBias(context, linear.y, linear.bias) : linear.y;
  linear_tap_.ShowValue(env_, pass, y);
  Tensor out = Add(context, residual, dropout_.Forward(pass, y));
  output_.ShowValue(env_, pass, out);
  return out;
}

Tensor BiasDropoutAdd::Backward(const Pass& pass, const Tensor& dy) const {
  output_.ShowGradient(env_, pass, dy);
  Tensor dlinear = dropout_.Backward(pass, dy);
  linear_tap_.ShowGradient(env_, pass, dlinear);
  return dlinear;
}

}  // namespace plumbline
