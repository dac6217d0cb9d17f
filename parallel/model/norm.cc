#include "parallel/model/norm.h"

#include <utility>

#include "kernels/norm.h"

namespace plumbline {

Norm::Norm(const RankEnv& env, const ActivationLayouts& layouts, int32_t layer,
           const std::string& name)
    : env_(env),
      output_(layer, Named(layouts.hidden, name)),
      weight_(MakeParameter(env, layer, name + ".weight", {env.model().hidden_size}, {})) {
  weight_.sequence_parallel = env.sequence_parallel();
  if (env.model().normalization == Normalization::kLayerNorm) {
    bias_ = MakeParameter(env, layer, name + ".bias", {env.model().hidden_size}, {});
    bias_->sequence_parallel = env.sequence_parallel();
  }
}

Tensor Norm::Forward(const Pass& pass, const Tensor& x, Saved& saved) const {
  const double epsilon = env_.model().norm_epsilon;
  NormForwardResult result =
      bias_ ? LayerNormForward(env_.context(), x, weight_.value, bias_->value, epsilon)
            : RmsNormForward(env_.context(), x, weight_.value, epsilon);
  saved = {x, std::move(result.mean), std::move(result.rstd)};
  output_.ShowValue(env_, pass, result.y);
  return result.y;
}

Tensor Norm::Backward(const Pass& pass, const Tensor& dy, const Saved& saved) {
  output_.ShowGradient(env_, pass, dy);
  const NormBackwardResult result =
      bias_ ? LayerNormBackward(env_.context(), dy, saved.x, weight_.value, saved.mean, saved.rstd)
            : RmsNormBackward(env_.context(), dy, saved.x, weight_.value, saved.rstd);
  // One kernel makes all three; only what it adds to the parameters waits.
  AddNowOrLater(pass, [this, pass, dweight = result.dweight, dbias = result.dbias] {
    weight_.AddGradient(env_, pass, dweight);
    if (bias_) bias_->AddGradient(env_, pass, dbias);
  });
  return result.dx;
}

void Norm::AppendParameters(std::vector<Parameter*>& parameters) {
  parameters.push_back(&weight_);
  if (bias_) parameters.push_back(&*bias_);
}

}  // namespace plumbline
