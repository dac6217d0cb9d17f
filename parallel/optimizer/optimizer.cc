#include "parallel/optimizer/optimizer.h"

#include "kernels/optimizer.h"

namespace plumbline {

Optimizer::Optimizer(const RankEnv& env, const std::vector<Parameter*>& parameters) : env_(env) {
  const TrainConfig& train = env.config().train;
  const bool adam = train.optimizer == OptimizerKind::kAdam;
  const auto zeros = [&](const Parameter& parameter) {
    return Tensor::Zeros(env.context(), parameter.value.dtype(), parameter.value.shape(),
                         MemoryCategory::kOptimizer);
  };
  for (Parameter* parameter : parameters) {
    State state{parameter, {}, {}};
    if (adam || train.sgd_momentum != 0) state.exp_avg = zeros(*parameter);
    if (adam) state.exp_avg_sq = zeros(*parameter);
    states_.push_back(state);
  }
}

void Optimizer::Step(int64_t step, const Tensor& gradient_scale) {
  const TrainConfig& train = env_.config().train;
  for (State& state : states_) {
    Parameter& parameter = *state.parameter;
    const double weight_decay = env_.policies().weight_decay(
        parameter.layout.tensor.name, parameter.weight_decay ? train.weight_decay : 0);
    if (train.optimizer == OptimizerKind::kAdam) {
      const AdamOptions options = {.lr = train.lr,
                                   .beta1 = train.adam_beta1,
                                   .beta2 = train.adam_beta2,
                                   .eps = train.adam_eps,
                                   .weight_decay = weight_decay,
                                   .step = step};
      AdamStep(env_.context(), parameter.value, parameter.main_grad, state.exp_avg,
               state.exp_avg_sq, options, gradient_scale);
    } else {
      const SgdOptions options = {.lr = train.lr,
                                  .momentum = train.sgd_momentum,
                                  .weight_decay = weight_decay,
                                  .step = step};
      SgdStep(env_.context(), parameter.value, parameter.main_grad, state.exp_avg, options,
              gradient_scale);
    }
  }
}

void Optimizer::Show(int64_t step) const {
  for (const State& state : states_) {
    const Parameter& parameter = *state.parameter;
    const auto show = [&](Quantity quantity, const Tensor& local) {
      if (!local.defined()) return;
      env_.probe().Observe(parameter.At(step, Phase::kStep, quantity), parameter.layout, local);
    };
    show(Quantity::kParameter, parameter.value);
    show(Quantity::kExpAvg, state.exp_avg);
    show(Quantity::kExpAvgSq, state.exp_avg_sq);
  }
}

}  // namespace plumbline
