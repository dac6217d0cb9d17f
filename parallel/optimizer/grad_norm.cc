#include "parallel/optimizer/grad_norm.h"

#include "kernels/elementwise.h"
#include "parallel/data/sharding.h"
#include "parallel/tensor/pass.h"

namespace plumbline {

Tensor GradNorm(const RankEnv& env, int64_t step, std::span<Parameter* const> parameters) {
  const Context& context = env.context();
  Tensor squares = Tensor::Zeros(context, env.config().main_dtype(), {}, MemoryCategory::kOther);
  for (const Parameter* parameter : parameters) {
    const Tensor counted = parameter->CountedGradient(env);
    if (counted.defined()) AddInto(context, squares, SumOfSquares(context, counted));
  }
  const Policies::GradNorm& policy = env.policies().grad_norm;
  const bool sharded = env.config().parallel.data.use_distributed_optimizer();
  const Group group =
      sharded ? MakeModelGroup(env, policy.sharded_group_axes) : env.GroupOf(policy.group_axes);
  if (group.size() > 1) {
    const Pass pass{.step = static_cast<int32_t>(step), .microbatch = -1, .phase = Phase::kNorm};
    env.comm().AllReduce(squares, ReduceOp::kSum, group,
                         SiteAt(MakeSite(-1, "grad_norm"), pass, Quantity::kValue));
  }
  return SquareRoot(context, squares);
}

}  // namespace plumbline
