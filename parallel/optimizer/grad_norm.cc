#include "parallel/optimizer/grad_norm.h"

#include "kernels/elementwise.h"
#include "parallel/tensor/pass.h"

namespace plumbline {

Tensor GradNorm(const RankEnv& env, int64_t step, std::span<Parameter* const> parameters) {
  const Context& context = env.context();
  Tensor squares = Tensor::Zeros(context, env.config().dtype, {}, MemoryCategory::kOther);
  for (const Parameter* parameter : parameters) {
    const Tensor counted = parameter->CountedGradient(env);
    if (counted.defined()) AddInto(context, squares, SumOfSquares(context, counted));
  }
  const Group& group = env.GroupOf(env.policies().grad_norm.group_axes);
  if (group.size() > 1) {
    const Pass pass{.step = static_cast<int32_t>(step), .microbatch = -1, .phase = Phase::kNorm};
    env.comm().AllReduce(squares, ReduceOp::kSum, group,
                         SiteAt(MakeSite(-1, "grad_norm"), pass, Quantity::kValue));
  }
  return SquareRoot(context, squares);
}

}  // namespace plumbline
