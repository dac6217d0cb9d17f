#include "parallel/optimizer/optimizer.h"

#include <utility>

#include "kernels/elementwise.h"
#include "kernels/optimizer.h"
#include "parallel/data/sharding.h"

namespace plumbline {

Optimizer::Optimizer(const RankEnv& env, const std::vector<Parameter*>& parameters)
    : env_(env), shards_(MakeShardGroups(env).instance) {
  const TrainConfig& train = env.config().train;
  const bool adam = train.optimizer == OptimizerKind::kAdam;
  const DType dtype = env.config().main_dtype();
  const auto zeros = [&](const Parameter& parameter) {
    return Tensor::Zeros(env.context(), dtype, parameter.owned_value().shape(),
                         MemoryCategory::kOptimizer);
  };
  for (Parameter* parameter : parameters) {
    State state{parameter, {}, {}, {}};
    if (parameter->owned_value().dtype() != dtype) {
      state.master = Cast(env.context(), parameter->owned_value(), dtype)
                         .Clone(env.context(), MemoryCategory::kOptimizer);
    }
    if (adam || train.sgd_momentum != 0) state.exp_avg = zeros(*parameter);
    if (adam) state.exp_avg_sq = zeros(*parameter);
    states_.push_back(std::move(state));
  }
}

void Optimizer::Step(int64_t step, const Tensor& gradient_scale) {
  if (const auto& change = env_.policies().change_moments) {
    std::vector<Tensor> moments;
    for (const State& state : states_) moments.push_back(state.exp_avg);
    for (const State& state : states_) moments.push_back(state.exp_avg_sq);
    change(env_.comm(), env_.context(), shards_, step, moments);
  }
  for (State& state : states_) Update(step, gradient_scale, state);
}

void Optimizer::Update(int64_t step, const Tensor& gradient_scale, State& state) {
  const TrainConfig& train = env_.config().train;
  const Context& context = env_.context();
  const Parameter& parameter = *state.parameter;
  const double weight_decay = env_.policies().weight_decay(
      parameter.layout.tensor.name, parameter.weight_decay ? train.weight_decay : 0);
  Tensor value = parameter.owned_value();
  Tensor& master = state.master.defined() ? state.master : value;
  Tensor gradient = parameter.owned_grad();
  if (gradient.dtype() != master.dtype()) gradient = Cast(context, gradient, master.dtype());
  if (train.optimizer == OptimizerKind::kAdam) {
    const AdamOptions options = {.lr = train.lr,
                                 .beta1 = train.adam_beta1,
                                 .beta2 = train.adam_beta2,
                                 .eps = train.adam_eps,
                                 .weight_decay = weight_decay,
                                 .step = step};
    env_.policies().adam_step(context, master, gradient, state.exp_avg, state.exp_avg_sq, options,
                              gradient_scale);
  } else {
    const SgdOptions options = {
        .lr = train.lr, .momentum = train.sgd_momentum, .weight_decay = weight_decay, .step = step};
    SgdStep(context, master, gradient, state.exp_avg, options, gradient_scale);
  }
  if (state.master.defined()) value.CopyFrom(Cast(context, state.master, value.dtype()));
}

void Optimizer::Show(int64_t step) const {
  for (const State& state : states_) {
    const Parameter& parameter = *state.parameter;
    const auto show = [&](Quantity quantity, const ObservedLayout& layout, const Tensor& local) {
      if (!local.defined()) return;
      env_.probe().Observe(parameter.At(step, Phase::kStep, quantity), layout, local);
    };
    if (parameter.owned || state.master.defined()) {
      show(Quantity::kMainParam, parameter.owned_layout(),
           state.master.defined() ? state.master : parameter.owned_value());
    }
    if (!parameter.owned) show(Quantity::kParameter, parameter.layout, parameter.value);
    show(Quantity::kExpAvg, parameter.owned_layout(), state.exp_avg);
    show(Quantity::kExpAvgSq, parameter.owned_layout(), state.exp_avg_sq);
  }
}

}  // namespace plumbline
