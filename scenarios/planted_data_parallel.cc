#include "scenarios/planted_data_parallel.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "parallel/comm/mutation.h"

namespace plumbline {
namespace {

const DataParallelConfig& DataOf(const RunConfig& config) { return config.parallel.data; }

std::string NeedsBuffers(const RunConfig& config) {
  return DataOf(config).gradient_buffers ? "" : "--use-distributed-optimizer or another flag of it";
}

std::string NeedsBuffersAndDp(const RunConfig& config) {
  return config.parallel.dp > 1 ? NeedsBuffers(config) : "--data-parallel-size above 1";
}

std::string NeedsSharding(const RunConfig& config) {
  return DataOf(config).use_distributed_optimizer() ? "" : "--use-distributed-optimizer";
}

std::string NeedsShardingAndDp(const RunConfig& config) {
  return config.parallel.dp > 1 ? NeedsSharding(config) : "--data-parallel-size above 1";
}

std::string NeedsGradOverlap(const RunConfig& config) {
  return DataOf(config).overlap_grad_reduce ? NeedsBuffersAndDp(config) : "--overlap-grad-reduce";
}

std::string NeedsParamOverlap(const RunConfig& config) {
  return DataOf(config).overlap_param_gather ? NeedsShardingAndDp(config)
                                             : "--overlap-param-gather";
}

std::string NeedsSendBuffers(const RunConfig& config) {
  const bool fully = DataOf(config).sharding_strategy >= ShardingStrategy::kOptimGrads;
  return fully ? NeedsGradOverlap(config)
               : "--data-parallel-sharding-strategy optim_grads or optim_grads_params";
}

std::string NeedsTiedStages(const RunConfig& config) {
  const bool tied = config.model.tied_embeddings && config.parallel.pp > 1;
  return tied ? NeedsShardingAndDp(config)
              : "tied embeddings and --pipeline-model-parallel-size above 1";
}

std::string NeedsOneRank(const RunConfig& config) {
  return config.parallel.dp == 1 ? NeedsSharding(config) : "--data-parallel-size 1";
}

std::function<void(Scenario&)> Decide(void (*change)(Policies::DataParallel& policy)) {
  return [change](Scenario& scenario) { change(scenario.policies.data_parallel); };
}

// One element more than what divides.
void UnpadBuckets(std::vector<BufferLayout>& buffers) {
  for (BufferLayout& buffer : buffers) {
    Bucket& last = buffer.buckets.back();
    last.range.end = last.unpadded_end + 1 - last.unpadded_end % 2;
  }
}

BufferRange OneTooFar(const Bucket& bucket, int shard, int shards) {
  BufferRange range = ShardOf(bucket, shard, shards);
  if (shard + 1 < shards) ++range.end;
  ++range.begin;
  return range;
}

// Each rank goes on from the moments of the next one.
void TakeNeighbours(Communicator& comm, const Context& context, const Group& shards,
                    std::span<Tensor> moments) {
  const Site site{.phase = Phase::kLoad, .quantity = Quantity::kExpAvg, .tensor = "moments"};
  const DType dtype = moments.front().dtype();
  int64_t own = 0;
  for (const Tensor& moment : moments) own += moment.elements();
  // Parameters fill shards unevenly, so the longest sets the length.
  Tensor length = Tensor::FromVector<int64_t>(context, {1}, {own});
  comm.AllReduce(length, ReduceOp::kMax, shards, site);
  Tensor mine = Tensor::Zeros(context, dtype, {length.at<int64_t>({0})});
  int64_t at = 0;
  for (const Tensor& moment : moments) {
    mine.Slice(0, at, at + moment.elements()).CopyFrom(moment.View({-1}));
    at += moment.elements();
  }
  const Tensor all = comm.AllGather(context, mine, shards, site);
  const int next = (shards.IndexOf(comm.global_rank()) + 1) % shards.size();
  at = next * mine.elements();
  for (Tensor& moment : moments) {
    moment.View({-1}).CopyFrom(all.Slice(0, at, at + moment.elements()));
    at += moment.elements();
  }
}

std::unique_ptr<Communicator> AddToItself(Rank&, Communicator& inner) {
  const CallPredicate alone = [](const CollectiveCall& call, int) {
    return call.op == CollectiveOp::kReduceScatter && call.group.size() == 1;
  };
  return std::make_unique<MutationCommunicator>(inner,
                                                std::vector<MutationRule>{ScaleResult(alone, 2)});
}

std::vector<Planted> LayoutMistakes() {
  return {
      {"bucket-padding-not-divisible", "buckets are not padded to a multiple of dp",
       NeedsShardingAndDp, Decide([](auto& policy) { policy.change_buffers = UnpadBuckets; })},
      {"shard-boundary-off-by-one", "each rank takes its shard to begin and end one element late",
       NeedsShardingAndDp, Decide([](auto& policy) { policy.owned_range = OneTooFar; })},
      {"tied-embedding-in-a-common-bucket",
       "the tied table shares its bucket, so that both stages cut it differently", NeedsTiedStages,
       Decide([](auto& policy) {
         policy.change_buffer_parameters = [](std::vector<BufferParameter>& parameters) {
           for (BufferParameter& parameter : parameters) parameter.shared_embedding = false;
         };
       })},
      {"moments-of-the-neighbours-shard", "step 2 begins with the moments of the next rank's shard",
       NeedsShardingAndDp,
       [](Scenario& scenario) {
         scenario.policies.change_moments = [](Communicator& comm, const Context& context,
                                               const Group& shards, int64_t step,
                                               std::vector<Tensor>& moments) {
           if (step != 2) return;
           const std::span<Tensor> all(moments);
           TakeNeighbours(comm, context, shards, all.first(moments.size() / 2));
           TakeNeighbours(comm, context, shards, all.last(moments.size() / 2));
         };
       }},
  };
}

std::vector<Planted> GradientMistakes() {
  return {
      {"gradients-not-zeroed", "step 2 begins with the gradients of step 1", NeedsBuffers,
       Decide([](auto& policy) {
         policy.zeroes_gradients = [](int64_t step, int microbatch) {
           return step != 2 && microbatch == 0;
         };
       })},
      {"gradients-zeroed-per-microbatch", "gradients are set to zero before each microbatch",
       NeedsBuffers,
       Decide([](auto& policy) { policy.zeroes_gradients = [](int64_t, int) { return true; }; })},
      {"reduced-after-the-first-microbatch",
       "gradients are reduced after the first of a rank's microbatches", NeedsBuffersAndDp,
       Decide([](auto& policy) { policy.after_microbatch = [](int) { return 0; }; })},
      {"single-rank-reduce-scatter-adds-itself",
       "reduce_scatter over one rank adds the rank's own part to itself", NeedsOneRank,
       [](Scenario& scenario) { scenario.decorate = AddToItself; }},
      {"gradients-scaled-after-their-reduction-started",
       "the hook starts a bucket's reduction before its gradients are divided", NeedsGradOverlap,
       Decide([](auto& policy) { policy.scales_before_reduction = false; })},
      {"send-buffer-reused-in-flight",
       "a unit's gradients are written where an earlier reduction still reads", NeedsSendBuffers,
       Decide([](auto& policy) { policy.waits_before_reuse = false; })},
      {"reductions-not-waited-for", "nobody waits for reductions before gradients are read",
       NeedsBuffersAndDp,
       Decide([](auto& policy) { policy.waits_for_reduction = [](int) { return false; }; })},
      {"reduction-ahead-of-compute",
       "the communication stream does not wait for the gradients that it reduces",
       NeedsBuffersAndDp,
       Decide([](auto& policy) { policy.reduces_after_compute = [](int) { return false; }; })},
      {"gradients-not-finalized", "step 2 leaves finalize_model_grads out", NeedsBuffersAndDp,
       Decide([](auto& policy) { policy.finalizes = [](int64_t step) { return step != 2; }; })},
  };
}

std::vector<Planted> GatherMistakes() {
  return {
      {"bucket-gather-skipped", "the first bucket's updated weights are never gathered",
       NeedsShardingAndDp, Decide([](auto& policy) {
         policy.gathers_parameters = [](int64_t, int group) { return group != 0; };
       })},
      {"forward-before-gather", "the forward does not wait for gathered weights", NeedsParamOverlap,
       Decide([](auto& policy) { policy.waits_for_gather = [](int) { return false; }; })},
  };
}

}  // namespace

std::vector<Planted> DataParallelMistakes() {
  std::vector<Planted> all;
  for (std::vector<Planted> part : {LayoutMistakes(), GradientMistakes(), GatherMistakes()}) {
    std::move(part.begin(), part.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace plumbline
