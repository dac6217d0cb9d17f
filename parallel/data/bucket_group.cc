#include "parallel/data/bucket_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kernels/elementwise.h"

namespace plumbline {

GradientReduction GradientReductionOf(const RankEnv& env, const ShardGroups& groups) {
  const Policies::DataParallel& policy = env.policies().data_parallel;
  const ReduceOp op = env.config().train.calculate_per_token_loss ? policy.reduce_op_per_token
                                                                  : policy.reduce_op_per_microbatch;
  if (op != ReduceOp::kAvg) return {op, 1};
  if (env.config().parallel.data.average_in_collective) return {ReduceOp::kAvg, 1};
  return {ReduceOp::kSum, groups.all.size()};
}

BufferRange CollectiveShard(const Bucket& bucket, int shard, int shards) {
  const int64_t size = bucket.range.size() / shards;
  return {bucket.range.begin + shard * size, bucket.range.begin + (shard + 1) * size};
}

BufferRange CollectiveRange(const Bucket& bucket, int shards) {
  return {bucket.range.begin, bucket.range.begin + bucket.range.size() / shards * shards};
}

BucketGroupSync::BucketGroupSync(const RankEnv& env, Streams& streams, const ShardGroups& groups,
                                 std::vector<Member> members, int number, int chunk)
    : env_(env),
      streams_(streams),
      groups_(groups),
      members_(std::move(members)),
      number_(number),
      chunk_(chunk),
      sharded_(env.config().parallel.data.use_distributed_optimizer()) {
  for (const Member& member : members_) {
    for (const int parameter : member.buffer->bucket(member.bucket).parameters) {
      parameters_.push_back(&member.buffer->parameter(parameter));
    }
  }
}

Site BucketGroupSync::SiteOf(const Member& member, Phase phase, Quantity quantity) const {
  Site site;
  site.step = static_cast<int32_t>(step_);
  site.chunk = chunk_;
  site.phase = phase;
  site.quantity = quantity;
  site.tensor = fmt::format("buffer{}.bucket{}", member.buffer_number, member.bucket);
  return site;
}

void BucketGroupSync::BeginStep(int64_t step) {
  step_ = step;
  ready_.clear();
  started_ = false;
}

void BucketGroupSync::MarkReady(const Parameter& parameter) { ready_.insert(&parameter); }

std::vector<const Parameter*> BucketGroupSync::Missing() const {
  std::vector<const Parameter*> missing;
  for (const Parameter* parameter : parameters_) {
    if (!ready_.contains(parameter)) missing.push_back(parameter);
  }
  std::reverse(missing.begin(), missing.end());
  return missing;
}

void BucketGroupSync::Scale() {
  const int64_t divisor = GradientReductionOf(env_, groups_).divisor;
  if (divisor == 1) return;
  for (const Member& member : members_) {
    const BufferRange& range = member.buffer->bucket(member.bucket).range;
    streams_.Enqueue(StreamId::kCompute,
                     [this, gradients = member.buffer->Grads(range), divisor]() mutable {
                       DivideInto(env_.context(), gradients, divisor);
                     });
  }
}

void BucketGroupSync::StartGradSync() {
  started_ = true;
  const bool scales_first = env_.policies().data_parallel.scales_before_reduction;
  if (scales_first) Scale();
  const StreamEvent computed = streams_.Record(StreamId::kCompute);
  if (env_.policies().data_parallel.reduces_after_compute(number_)) {
    streams_.Wait(StreamId::kCommunication, computed);
  }
  for (const Member& member : members_) Reduce(member);
  reduced_ = streams_.Record(StreamId::kCommunication);
  if (!scales_first) Scale();
}

void BucketGroupSync::Reduce(const Member& member) {
  const Bucket& bucket = member.buffer->bucket(member.bucket);
  const Site site = SiteOf(member, Phase::kFinalize, Quantity::kMainGrad);
  const ReduceOp op = GradientReductionOf(env_, groups_).op;
  Communicator& comm = env_.comm();
  const auto enqueue = [this](std::function<std::shared_ptr<Work>()> issue) {
    streams_.EnqueueCall(StreamId::kCommunication, std::move(issue));
  };
  if (!sharded_) {
    if (groups_.all.size() == 1) return;
    const Tensor gradients = member.buffer->Grads(bucket.range);
    enqueue([=, this, &comm] { return comm.AllReduceAsync(gradients, op, groups_.all, site); });
    return;
  }
  const int shards = groups_.instance.size();
  const Tensor whole = member.buffer->Grads(CollectiveRange(bucket, shards));
  const Tensor own = member.buffer->Grads(CollectiveShard(bucket, groups_.shard, shards));
  enqueue(
      [=, this, &comm] { return comm.ReduceScatterAsync(whole, own, op, groups_.instance, site); });
  if (groups_.replicas.size() == 1) return;
  enqueue([=, this, &comm] { return comm.AllReduceAsync(own, op, groups_.replicas, site); });
}

void BucketGroupSync::FinishGradSync() {
  if (!started_) StartGradSync();
  if (!env_.policies().data_parallel.waits_for_reduction(number_)) return;
  streams_.Wait(StreamId::kCompute, reduced_);
}

void BucketGroupSync::StartParamSync(const std::function<void()>& gathered) {
  if (!sharded_ || !env_.policies().data_parallel.gathers_parameters(step_, number_)) return;
  const StreamEvent updated = streams_.Record(StreamId::kCompute);
  streams_.Wait(StreamId::kCommunication, updated);
  const int shards = groups_.instance.size();
  for (const Member& member : members_) {
    const Bucket& bucket = member.buffer->bucket(member.bucket);
    const Tensor own = member.buffer->Weights(CollectiveShard(bucket, groups_.shard, shards));
    const Tensor whole = member.buffer->Weights(CollectiveRange(bucket, shards));
    const Site site = SiteOf(member, Phase::kGather, Quantity::kParameter);
    streams_.EnqueueCall(StreamId::kCommunication, [=, this] {
      return env_.comm().AllGatherAsync(own, whole, groups_.instance, site);
    });
  }
  streams_.Enqueue(StreamId::kCommunication, gathered);
  gathered_ = streams_.Record(StreamId::kCommunication);
  gathering_ = true;
}

void BucketGroupSync::FinishParamSync() {
  if (!gathering_) return;
  gathering_ = false;
  streams_.Wait(StreamId::kCompute, gathered_);
  streams_.Synchronize(StreamId::kCompute);
}

}  // namespace plumbline
