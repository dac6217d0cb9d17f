#include "parallel/model/mlp.h"

#include "kernels/activation.h"

namespace plumbline {
namespace {

ColumnParallelLinear::Options Fc1Options(const RankEnv& env, int32_t layer,
                                         const std::string& prefix) {
  return {.layer = layer,
          .name = prefix + "mlp.linear_fc1",
          .input_tensor = prefix + "pre_mlp_layernorm",
          .input_size = env.model().hidden_size,
          .output_size = env.model().fc1_size(),
          .cut = SegmentsCut(env.model().swiglu() ? 2 : 1),
          .bias = env.model().add_bias_linear};
}

RowParallelLinear::Options Fc2Options(const RankEnv& env, int32_t layer,
                                      const std::string& prefix) {
  return {.layer = layer,
          .name = prefix + "mlp.linear_fc2",
          .input_size = env.model().ffn_hidden_size,
          .output_size = env.model().hidden_size,
          .bias = env.model().add_bias_linear,
          .skip_bias_add = true};
}

}  // namespace

Mlp::Mlp(const RankEnv& env, const ActivationLayouts& layouts, int32_t layer,
         const std::string& prefix)
    : env_(env),
      fc1_tap_(layer, Named(layouts.fc1, prefix + "mlp.linear_fc1")),
      activation_tap_(layer, Named(layouts.activation, prefix + "mlp.activation_func")),
      linear_fc1_(env, Fc1Options(env, layer, prefix)),
      linear_fc2_(env, Fc2Options(env, layer, prefix)) {}

RowParallelLinear::Output Mlp::Forward(const Pass& pass, const Tensor& x, Saved& saved) const {
  saved.fc1 = linear_fc1_.Forward(pass, x, saved.linear_fc1);
  fc1_tap_.ShowValue(env_, pass, saved.fc1);
  const Tensor activated = ActivationForward(env_.context(), env_.model().activation, saved.fc1);
  activation_tap_.ShowValue(env_, pass, activated);
  return linear_fc2_.Forward(pass, activated, saved.linear_fc2);
}

Tensor Mlp::Backward(const Pass& pass, const Tensor& dy, const Saved& saved) {
  const Tensor dactivated = linear_fc2_.Backward(pass, dy, saved.linear_fc2);
  activation_tap_.ShowGradient(env_, pass, dactivated);
  const Tensor dfc1 =
      ActivationBackward(env_.context(), env_.model().activation, dactivated, saved.fc1);
  fc1_tap_.ShowGradient(env_, pass, dfc1);
  return linear_fc1_.Backward(pass, dfc1, saved.linear_fc1);
}

void Mlp::AppendParameters(std::vector<Parameter*>& parameters) {
  linear_fc1_.AppendParameters(parameters);
  linear_fc2_.AppendParameters(parameters);
}

}  // namespace plumbline
