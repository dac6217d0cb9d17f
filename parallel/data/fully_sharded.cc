#include "parallel/data/fully_sharded.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kernels/elementwise.h"
#include "parallel/data/bucket_group.h"
#include "parallel/data/param_and_grad_buffer.h"
#include "parallel/data/units.h"

namespace plumbline {

FullyShardedDataParallel::FullyShardedDataParallel(
    const RankEnv& env, Streams& streams, const std::vector<std::vector<Parameter*>>& units,
    int chunk)
    : env_(env),
      streams_(streams),
      units_(units),
      chunk_(env.config().parallel.virtual_stages == 1 ? -1 : chunk),
      groups_(MakeShardGroups(env)),
      shards_weights_(env.config().parallel.data.sharding_strategy ==
                      ShardingStrategy::kOptimGradsParams) {
  LayOut();
  for (Shards& shards : shards_) {
    Fill(shards);
    ShareOut(shards);
  }
}

void FullyShardedDataParallel::LayOut() {
  const std::vector<Parameter*> parameters = ParametersOf(units_);
  std::vector<BufferParameter> described = BufferParametersOf(env_, parameters);
  std::vector<int> unit_of;
  for (size_t i = 0; i < parameters.size(); ++i) {
    described[i].shared_embedding = parameters[i]->tied_embedding;
    for (size_t unit = 0; unit < units_.size(); ++unit) {
      const auto& members = units_[unit];
      if (std::find(members.begin(), members.end(), parameters[i]) == members.end()) continue;
      unit_of.push_back(static_cast<int>(unit));
      break;
    }
  }
  BufferOptions options;
  options.shards = groups_.instance.size();
  options.use_distributed_optimizer = true;
  std::vector<BufferLayout> layouts = LayOutUnits(described, unit_of, options);
  const auto& change = env_.policies().data_parallel.change_buffers;
  if (change) change(layouts);
  for (const BufferLayout& layout : layouts) {
    const size_t first = shards_.size();
    for (const Bucket& bucket : layout.buckets) {
      Shards& added = shards_.emplace_back();
      added.number = static_cast<int>(shards_.size() - 1);
      added.elements = bucket.range.size();
    }
    for (const ParameterRange& laid : layout.ranges) {
      const Bucket& bucket = layout.buckets[static_cast<size_t>(laid.bucket)];
      shards_[first + static_cast<size_t>(laid.bucket)].parameters.push_back(
          {parameters[static_cast<size_t>(laid.parameter)],
           {laid.range.begin - bucket.range.begin, laid.range.end - bucket.range.begin}});
    }
  }
}

// From the parameters' initial values.
void FullyShardedDataParallel::Fill(Shards& shards) {
  const Context& context = env_.context();
  const int64_t own_size = shards.elements / groups_.instance.size();
  const int64_t own_begin = own_size * groups_.shard;
  const DType dtype = env_.config().dtype;
  Tensor weights = Tensor::Zeros(context, dtype, {shards.elements}, MemoryCategory::kParameter);
  for (const Laid& laid : shards.parameters) {
    Tensor place = weights.Slice(0, laid.range.begin, laid.range.end);
    place.CopyFrom(laid.parameter->value.View({-1}));
    laid.parameter->value = shards_weights_ ? Tensor() : place.View(laid.parameter->value.shape());
    laid.parameter->main_grad = Tensor();
    laid.parameter->sink = this;
  }
  const Tensor own = weights.Slice(0, own_begin, own_begin + own_size);
  shards.own_weights = shards_weights_ ? own.Clone(context, MemoryCategory::kParameter) : own;
  if (!shards_weights_) shards.weights = weights;
  shards.own_grads =
      Tensor::Zeros(context, env_.config().grad_dtype(), {own_size}, MemoryCategory::kGradient);
}

void FullyShardedDataParallel::ShareOut(Shards& shards) {
  const int count = groups_.instance.size();
  const int64_t own_begin = shards.elements / count * groups_.shard;
  Bucket bucket;
  bucket.range = {0, shards.elements};
  for (const Laid& laid : shards.parameters) {
    std::vector<BufferRange> parts;
    for (int shard = 0; shard < count; ++shard) {
      parts.push_back(WithinParameter(
          laid.range, env_.policies().data_parallel.owned_range(bucket, shard, count)));
    }
    OwnedPart part = MakeOwnedPart(env_, groups_, *laid.parameter, parts);
    const int64_t at = std::clamp<int64_t>(laid.range.begin + part.begin - own_begin, 0,
                                           shards.own_weights.elements() - part.end + part.begin);
    part.value = shards.own_weights.Slice(0, at, at + part.end - part.begin);
    part.main_grad = shards.own_grads.Slice(0, at, at + part.end - part.begin);
    laid.parameter->owned = std::move(part);
  }
}

std::vector<FullyShardedDataParallel::Shards*> FullyShardedDataParallel::Of(int unit) {
  std::vector<Shards*> used;
  if (unit < 0 || unit >= static_cast<int>(units_.size())) return used;
  for (Shards& shards : shards_) {
    const auto& members = units_[static_cast<size_t>(unit)];
    const bool uses =
        std::any_of(shards.parameters.begin(), shards.parameters.end(), [&](const Laid& laid) {
          return std::find(members.begin(), members.end(), laid.parameter) != members.end();
        });
    if (uses) used.push_back(&shards);
  }
  return used;
}

Site FullyShardedDataParallel::SiteOf(const Shards& shards, const Pass& pass, Phase phase,
                                      Quantity quantity) const {
  Site site;
  site.step = pass.step;
  site.microbatch = pass.microbatch;
  site.chunk = chunk_;
  site.phase = phase;
  site.quantity = quantity;
  site.tensor = fmt::format("unit_bucket{}", shards.number);
  return site;
}

void FullyShardedDataParallel::StartGather(Shards& shards, const Pass& pass) {
  if (shards.gathering || (shards_weights_ && shards.weights.defined())) return;
  if (shards_weights_) {
    shards.weights = Tensor::Empty(env_.context(), env_.config().dtype, {shards.elements},
                                   MemoryCategory::kGathered);
    for (const Laid& laid : shards.parameters) {
      laid.parameter->value = shards.weights.Slice(0, laid.range.begin, laid.range.end)
                                  .View(laid.parameter->layout.piece.local_shape);
    }
  }
  if (!env_.policies().data_parallel.gathers_parameters(pass.step, shards.number)) return;
  const StreamEvent updated = streams_.Record(StreamId::kCompute);
  streams_.Wait(StreamId::kCommunication, updated);
  const Site site = SiteOf(shards, pass, Phase::kGather, Quantity::kParameter);
  streams_.EnqueueCall(StreamId::kCommunication,
                       [this, own = shards.own_weights, whole = shards.weights, site] {
                         return env_.comm().AllGatherAsync(own, whole, groups_.instance, site);
                       });
  if (!shards_weights_) {
    streams_.Enqueue(StreamId::kCommunication,
                     [this, &shards, step = step_] { ShowParameters(shards, step); });
  }
  shards.gathered = streams_.Record(StreamId::kCommunication);
  shards.gathering = true;
}

void FullyShardedDataParallel::FinishGather(Shards& shards) {
  if (!shards.gathering) return;
  shards.gathering = false;
  streams_.Wait(StreamId::kCompute, shards.gathered);
  streams_.Synchronize(StreamId::kCompute);
}

void FullyShardedDataParallel::Gather(const Pass& pass, int unit, int next_unit) {
  for (Shards* shards : Of(unit)) {
    if (shards_weights_) StartGather(*shards, pass);
    if (env_.policies().data_parallel.waits_for_gather(shards->number)) FinishGather(*shards);
  }
  if (shards_weights_ && env_.config().parallel.data.overlap_param_gather) {
    for (Shards* shards : Of(next_unit)) StartGather(*shards, pass);
  }
}

void FullyShardedDataParallel::BeforeForward(const Pass& pass, int unit) {
  Gather(pass, unit, unit + 1);
  CheckUsable(env_, pass, units_[static_cast<size_t>(unit)]);
}

void FullyShardedDataParallel::AfterForward(const Pass&, int unit) { Reshard(unit); }

void FullyShardedDataParallel::Reshard(int unit) {
  if (!shards_weights_) return;
  for (Shards* shards : Of(unit)) {
    shards->weights = Tensor();
    shards->gathering = false;
    for (const Laid& laid : shards->parameters) laid.parameter->value = Tensor();
  }
}

Tensor FullyShardedDataParallel::TakeSendBuffer(const Shards& shards) {
  const auto free =
      std::find_if(free_send_buffers_.begin(), free_send_buffers_.end(),
                   [&](const Tensor& buffer) { return buffer.elements() >= shards.elements; });
  if (free == free_send_buffers_.end()) {
    return Tensor::Zeros(env_.context(), env_.config().grad_dtype(), {shards.elements},
                         MemoryCategory::kCommunication);
  }
  Tensor buffer = *free;
  free_send_buffers_.erase(free);
  return buffer;
}

void FullyShardedDataParallel::BeforeBackward(const Pass& pass, int unit) {
  Gather(pass, unit, unit - 1);
  CheckUsable(env_, pass, units_[static_cast<size_t>(unit)]);
  for (Shards* shards : Of(unit)) {
    shards->grads = TakeSendBuffer(*shards);
    streams_.Enqueue(StreamId::kCompute, [grads = shards->grads]() mutable { grads.FillZero(); });
    for (const Laid& laid : shards->parameters) {
      laid.parameter->main_grad = shards->grads.Slice(0, laid.range.begin, laid.range.end)
                                      .View(laid.parameter->layout.piece.local_shape);
    }
  }
}

void FullyShardedDataParallel::Add(Parameter& parameter, const Pass&, const Tensor& gradient) {
  streams_.Enqueue(StreamId::kCompute, [this, sum = parameter.main_grad, gradient]() mutable {
    AddInto(env_.context(), sum, gradient);
  });
}

void FullyShardedDataParallel::AfterBackward(const Pass& pass, int unit) {
  for (Shards* shards : Of(unit)) StartReduction(*shards, pass);
  const bool overlaps = env_.config().parallel.data.overlap_grad_reduce;
  CollectReductions(overlaps ? 2 : 0);
  Reshard(unit);
}

void FullyShardedDataParallel::StartReduction(Shards& shards, const Pass& pass) {
  const GradientReduction reduction = GradientReductionOf(env_, groups_);
  Tensor send = shards.grads.Slice(0, 0, shards.elements);
  if (reduction.divisor > 1) {
    streams_.Enqueue(StreamId::kCompute, [this, send, reduction]() mutable {
      DivideInto(env_.context(), send, reduction.divisor);
    });
  }
  const StreamEvent computed = streams_.Record(StreamId::kCompute);
  if (env_.policies().data_parallel.reduces_after_compute(shards.number)) {
    streams_.Wait(StreamId::kCommunication, computed);
  }
  const Tensor received = Tensor::Empty(env_.context(), send.dtype(), shards.own_grads.shape(),
                                        MemoryCategory::kCommunication);
  const Site site = SiteOf(shards, pass, Phase::kBackward, Quantity::kMainGrad);
  streams_.EnqueueCall(StreamId::kCommunication, [this, send, received, reduction, site] {
    return env_.comm().ReduceScatterAsync(send, received, reduction.op, groups_.instance, site);
  });
  const StreamEvent done = streams_.Record(StreamId::kCommunication);
  reductions_.push_back({&shards, shards.grads, received, done, site});
  if (!env_.policies().data_parallel.waits_before_reuse) {
    free_send_buffers_.push_back(shards.grads);
  }
  shards.grads = Tensor();
  for (const Laid& laid : shards.parameters) laid.parameter->main_grad = Tensor();
}

void FullyShardedDataParallel::CollectReductions(size_t leave) {
  while (reductions_.size() > leave) {
    Reduction reduction = std::move(reductions_.front());
    reductions_.pop_front();
    if (env_.policies().data_parallel.waits_for_reduction(reduction.shards->number)) {
      streams_.Wait(StreamId::kCompute, reduction.done);
    }
    streams_.Enqueue(StreamId::kCompute,
                     [this, sum = reduction.shards->own_grads, received = reduction.received,
                      site = reduction.site]() mutable {
                       AddInto(env_.context(), sum, received);
                       env_.probe().ObserveAccumulation(site, received, sum);
                     });
    if (!env_.policies().data_parallel.waits_before_reuse) continue;
    streams_.Synchronize(StreamId::kCompute);
    free_send_buffers_.push_back(reduction.send);
  }
}

void FullyShardedDataParallel::BeginStep(int64_t step) {
  step_ = step;
  ZeroGradients(0);
}

void FullyShardedDataParallel::BeginBackward(int microbatch) {
  if (microbatch > 0) ZeroGradients(microbatch);
}

void FullyShardedDataParallel::ZeroGradients(int microbatch) {
  if (!env_.policies().data_parallel.zeroes_gradients(step_, microbatch)) return;
  streams_.Enqueue(StreamId::kCompute, [this] {
    for (Shards& shards : shards_) shards.own_grads.FillZero();
  });
}

void FullyShardedDataParallel::FinishGradSync() {
  CollectReductions(0);
  streams_.Synchronize(StreamId::kCompute);
}

void FullyShardedDataParallel::ShowParameters(const Shards& shards, int64_t step) const {
  for (const Laid& laid : shards.parameters) {
    const Parameter& parameter = *laid.parameter;
    const Site site = parameter.At(step, Phase::kStep, Quantity::kParameter);
    if (shards_weights_) {
      env_.probe().Observe(site, parameter.owned_layout(), parameter.owned_value());
    } else {
      env_.probe().Observe(site, parameter.layout, parameter.value);
    }
  }
}

void FullyShardedDataParallel::StartParamSync() {
  if (shards_weights_) {
    for (const Shards& shards : shards_) ShowParameters(shards, step_);
    return;
  }
  FinishParamSync();  // of weights that nobody has used
  Pass pass;
  pass.step = static_cast<int32_t>(step_);
  pass.microbatch = -1;
  for (size_t i = shards_.size(); i-- > 0;) {
    Shards& shards = shards_[i];
    const int64_t own_size = shards.own_weights.elements();
    const int64_t begin = own_size * groups_.shard;
    shards.weights.Slice(0, 0, begin).FillPoison();
    shards.weights.Slice(0, begin + own_size, shards.elements).FillPoison();
    StartGather(shards, pass);
  }
  if (!env_.config().parallel.data.overlap_param_gather) FinishParamSync();
}

void FullyShardedDataParallel::FinishParamSync() {
  if (shards_weights_) return;
  for (size_t i = shards_.size(); i-- > 0;) FinishGather(shards_[i]);
}

}  // namespace plumbline
