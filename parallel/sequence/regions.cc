#include "parallel/sequence/regions.h"

#include <utility>

#include "base/error.h"

namespace plumbline {

Tensor ScatterSequence(const RankEnv& env, const Tensor& x) {
  PL_CHECK(x.dim(0) % env.tp_size() == 0);
  const int64_t rows = x.dim(0) / env.tp_size();
  return x.Slice(0, env.tp_rank() * rows, (env.tp_rank() + 1) * rows);
}

Tensor GatherSequence(const RankEnv& env, const Tensor& x, const Site& site) {
  if (env.tp_size() == 1) return x;
  return env.comm().AllGather(env.context(), x, env.tp(), site);
}

Tensor ReduceScatterSequence(const RankEnv& env, const Tensor& partial, const Site& site) {
  if (env.tp_size() == 1) return partial;
  return env.comm().ReduceScatter(env.context(), partial, ReduceOp::kSum, env.tp(), site);
}

Tensor SumOverTp(const RankEnv& env, Tensor partial, const Site& site) {
  if (env.tp_size() > 1) env.comm().AllReduce(partial, ReduceOp::kSum, env.tp(), site);
  return partial;
}

Tensor LeaveTensorParallel(const RankEnv& env, Tensor partial, const Site& site) {
  return env.sequence_parallel() ? ReduceScatterSequence(env, partial, site)
                                 : SumOverTp(env, std::move(partial), site);
}

Tensor EnterTensorParallel(const RankEnv& env, const Tensor& x, const Site& site) {
  return env.sequence_parallel() ? GatherSequence(env, x, site) : x;
}

}  // namespace plumbline
