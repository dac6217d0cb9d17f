#include "parallel/data/param_and_grad_buffer.h"

#include <utility>

namespace plumbline {

std::vector<BufferParameter> BufferParametersOf(const RankEnv& env,
                                                std::span<Parameter* const> parameters) {
  std::vector<BufferParameter> result;
  for (const Parameter* parameter : parameters) {
    BufferParameter described;
    described.name = parameter->name();
    described.elements = ElementsOf(parameter->layout.piece.local_shape);
    described.shared_embedding = parameter->tied_embedding && env.mesh().extent("pp") > 1;
    described.param_dtype = env.config().dtype;
    described.grad_dtype = env.config().grad_dtype();
    result.push_back(std::move(described));
  }
  const auto& change = env.policies().data_parallel.change_buffer_parameters;
  if (change) change(result);
  return result;
}

ParamAndGradBuffer::ParamAndGradBuffer(const RankEnv& env, BufferLayout layout,
                                       std::span<Parameter* const> parameters, bool holds_weights)
    : layout_(std::move(layout)), parameters_(parameters.begin(), parameters.end()) {
  const Shape shape = {layout_.elements()};
  grads_ = Tensor::Zeros(env.context(), layout_.grad_dtype, shape, MemoryCategory::kGradient);
  if (holds_weights) {
    weights_ = Tensor::Zeros(env.context(), layout_.param_dtype, shape, MemoryCategory::kParameter);
  }
  for (const ParameterRange& laid : layout_.ranges) {
    Parameter& moved = parameter(laid.parameter);
    const Shape& local = moved.layout.piece.local_shape;
    moved.main_grad = Grads(laid.range).View(local);
    if (!holds_weights) continue;
    Tensor place = Weights(laid.range).View(local);
    place.CopyFrom(moved.value);
    moved.value = std::move(place);
  }
}

}  // namespace plumbline
