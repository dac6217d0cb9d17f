#include "parallel/data/distributed_data_parallel.h"

#include <fmt/format.h>

#include <utility>

#include "parallel/data/units.h"

namespace plumbline {
namespace {

bool IsLastMicrobatch(const RankEnv& env, int microbatch) {
  return microbatch == env.policies().data_parallel.after_microbatch(
                           static_cast<int>(env.config().num_microbatches()));
}

}  // namespace

DistributedDataParallel::DistributedDataParallel(const RankEnv& env, Streams& streams,
                                                 const std::vector<std::vector<Parameter*>>& units,
                                                 int chunk)
    : env_(env),
      streams_(streams),
      units_(units),
      parameters_(ParametersOf(units)),
      groups_(MakeShardGroups(env)),
      sharded_(env.config().parallel.data.use_distributed_optimizer()),
      overlaps_grads_(env.config().parallel.data.overlap_grad_reduce),
      overlaps_params_(env.config().parallel.data.overlap_param_gather) {
  LayOut(chunk);
  ReportLayout();
  if (sharded_) ShareOut();
  for (Parameter* parameter : parameters_) parameter->sink = this;
}

void DistributedDataParallel::LayOut(int chunk) {
  const int stage = env_.mesh().CoordinateOf(env_.global_rank(), "pp");
  BufferOptions options = BufferOptionsOf(env_.config(), stage, chunk);
  options.shards = groups_.instance.size();
  std::vector<BufferLayout> layouts = LayOutBuffers(BufferParametersOf(env_, parameters_), options);
  const auto& change = env_.policies().data_parallel.change_buffers;
  if (change) change(layouts);
  for (const BufferLayout& layout : layouts) {
    buffers_.push_back(std::make_unique<ParamAndGradBuffer>(env_, layout, parameters_, sharded_));
  }
  for (const BucketGroup& group : GroupBuckets(layouts, options)) {
    std::vector<BucketGroupSync::Member> members;
    for (const BucketGroup::Member& member : group.members) {
      members.push_back(
          {buffers_[static_cast<size_t>(member.buffer)].get(), member.buffer, member.bucket});
    }
    const auto number = static_cast<int>(bucket_groups_.size());
    const bool one_chunk = env_.config().parallel.virtual_stages == 1;
    bucket_groups_.emplace_back(env_, streams_, groups_, std::move(members), number,
                                one_chunk ? -1 : chunk);
    for (const Parameter* parameter : bucket_groups_.back().parameters()) {
      group_of_[parameter] = number;
    }
  }
}

void DistributedDataParallel::ReportLayout() const {
  if (!sharded_) return;
  for (size_t buffer = 0; buffer < buffers_.size(); ++buffer) {
    const std::vector<Bucket>& buckets = buffers_[buffer]->layout().buckets;
    for (size_t bucket = 0; bucket < buckets.size(); ++bucket) {
      const int64_t size = buckets[bucket].range.size();
      if (size % groups_.instance.size() == 0) continue;
      const Parameter& last = buffers_[buffer]->parameter(buckets[bucket].parameters.back());
      env_.probe().ObserveFault(
          FindingClass::kBufferLayout, last.At(0, Phase::kInit, Quantity::kMainGrad),
          fmt::format("buffer {} bucket {} has {} elements, which don't divide among {} "
                      "data-parallel ranks: its padding is wrong",
                      buffer, bucket, size, groups_.instance.size()));
    }
  }
}

// Gives each parameter the part of it that lies in this rank's shard of its bucket.
void DistributedDataParallel::ShareOut() {
  const int shards = groups_.instance.size();
  const auto& owned_range = env_.policies().data_parallel.owned_range;
  for (const auto& buffer : buffers_) {
    for (const ParameterRange& laid : buffer->layout().ranges) {
      Bucket bucket = buffer->bucket(laid.bucket);
      bucket.range = CollectiveRange(bucket, shards);
      std::vector<BufferRange> parts;
      for (int shard = 0; shard < shards; ++shard) {
        parts.push_back(WithinParameter(laid.range, owned_range(bucket, shard, shards)));
      }
      Parameter& parameter = buffer->parameter(laid.parameter);
      OwnedPart part = MakeOwnedPart(env_, groups_, parameter, parts);
      part.value = parameter.value.View({-1}).Slice(0, part.begin, part.end);
      part.main_grad = parameter.main_grad.View({-1}).Slice(0, part.begin, part.end);
      parameter.owned = std::move(part);
    }
  }
}

void DistributedDataParallel::BeginStep(int64_t step) {
  step_ = step;
  last_microbatch_ = false;
  next_group_ = 0;
  for (BucketGroupSync& group : bucket_groups_) group.BeginStep(step);
  ZeroGradients(0);
}

void DistributedDataParallel::ZeroGradients(int microbatch) {
  if (!env_.policies().data_parallel.zeroes_gradients(step_, microbatch)) return;
  streams_.Enqueue(StreamId::kCompute, [this] {
    for (const auto& buffer : buffers_) buffer->ZeroGrads();
  });
}

void DistributedDataParallel::BeginBackward(int microbatch) {
  last_microbatch_ = IsLastMicrobatch(env_, microbatch);
  gradients_.clear();
  if (microbatch > 0) ZeroGradients(microbatch);
}

void DistributedDataParallel::Add(Parameter& parameter, const Pass& pass, const Tensor& gradient) {
  streams_.Enqueue(StreamId::kCompute, [this, &parameter, pass, gradient] {
    parameter.Accumulate(env_, pass, gradient);
  });
  const bool complete = ++gradients_[&parameter] == parameter.gradients_per_microbatch;
  if (!complete || !last_microbatch_ || !overlaps_grads_) return;
  bucket_groups_[static_cast<size_t>(group_of_.at(&parameter))].MarkReady(parameter);
  StartReadyGroups();
}

void DistributedDataParallel::StartReadyGroups() {
  while (next_group_ < bucket_groups_.size() && bucket_groups_[next_group_].ready()) {
    bucket_groups_[next_group_++].StartGradSync();
  }
}

void DistributedDataParallel::FinishGradSync() {
  for (BucketGroupSync& group : bucket_groups_) {
    if (overlaps_grads_ && !group.started()) {
      for (const Parameter* parameter : group.Missing()) {
        env_.probe().ObserveFault(FindingClass::kUnusedParameter,
                                  parameter->At(step_, Phase::kFinalize, Quantity::kMainGrad),
                                  "no gradient came in the last microbatch");
      }
    }
    group.FinishGradSync();
  }
  streams_.Synchronize(StreamId::kCompute);
}

// What the rank does not own is out of date until it has been gathered.
void DistributedDataParallel::PoisonOtherShards() {
  const int shards = groups_.instance.size();
  for (const auto& buffer : buffers_) {
    for (const Bucket& bucket : buffer->layout().buckets) {
      const BufferRange own = CollectiveShard(bucket, groups_.shard, shards);
      buffer->Weights({bucket.range.begin, own.begin}).FillPoison();
      buffer->Weights({own.end, CollectiveRange(bucket, shards).end}).FillPoison();
    }
  }
}

void DistributedDataParallel::StartParamSync() {
  if (!sharded_) return;
  FinishParamSync();  // of weights that nobody has used
  PoisonOtherShards();
  // In the order in which the forward needs them.
  for (size_t i = bucket_groups_.size(); i-- > 0;) {
    BucketGroupSync& group = bucket_groups_[i];
    group.StartParamSync([this, &group, step = step_] { ShowParameters(group, step); });
  }
  if (!overlaps_params_) FinishParamSync();
}

void DistributedDataParallel::ShowParameters(const BucketGroupSync& group, int64_t step) const {
  for (const Parameter* parameter : group.parameters()) {
    env_.probe().Observe(parameter->At(step, Phase::kStep, Quantity::kParameter), parameter->layout,
                         parameter->value);
  }
}

void DistributedDataParallel::FinishParamSync() {
  for (size_t i = bucket_groups_.size(); i-- > 0;) bucket_groups_[i].FinishParamSync();
}

void DistributedDataParallel::BeforeForward(const Pass& pass, int unit) {
  if (!sharded_) return;
  const std::vector<Parameter*>& used = units_[static_cast<size_t>(unit)];
  for (const Parameter* parameter : used) {
    const int group = group_of_.at(parameter);
    if (env_.policies().data_parallel.waits_for_gather(group)) {
      bucket_groups_[static_cast<size_t>(group)].FinishParamSync();
    }
  }
  CheckUsable(env_, pass, used);
}

}  // namespace plumbline
