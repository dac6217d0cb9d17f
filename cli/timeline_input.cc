#include "cli/timeline_input.h"

#include <algorithm>
#include <string>

#include "base/dtype.h"
#include "base/error.h"
#include "parallel/pipeline/schedule_builder.h"
#include "parallel/pipeline/stage_layout.h"

namespace plumbline {
namespace {

// More than any model's bytes, and far enough below 2^63 for the products here.
constexpr int64_t kMostCost = 1'000'000'000;

void CheckCosts(const TimelineCosts& costs) {
  for (const auto& [flag, value] :
       {std::pair{"--forward-ps", costs.forward_ps}, std::pair{"--backward-ps", costs.backward_ps},
        std::pair{"--latency-ns", costs.latency_ns},
        std::pair{"--bandwidth-gbs", costs.bandwidth_gbs}}) {
    if (value > kMostCost) throw InvalidArgument("{} {}: at most {}", flag, value, kMostCost);
  }
  if (costs.bandwidth_gbs < 1) throw InvalidArgument("--bandwidth-gbs 0: must be at least 1");
}

int64_t RoundedUp(__int128 value, int64_t divisor) {
  return static_cast<int64_t>((value + divisor - 1) / divisor);
}

class Builder {
 public:
  Builder(const RunConfig& config, const StageBuffers& stage, const TimelineCosts& costs)
      : config_(config), stage_(stage), costs_(costs) {}

  StageTimelineInput Build() {
    for (size_t c = 0; c < stage_.chunks.size(); ++c) AddChunk(static_cast<int>(c));
    AddPasses();
    return std::move(result_);
  }

 private:
  int64_t ComputeTime(int64_t elements, int64_t ps) const {
    return RoundedUp(static_cast<__int128>(elements) * ps, 1000);
  }
  // `rounds` times around a ring of `ranks`.
  int64_t RingTime(int64_t bytes, int ranks, int rounds) const {
    if (ranks == 1) return 0;
    const __int128 moved = static_cast<__int128>(bytes) * rounds * (ranks - 1);
    return costs_.latency_ns + RoundedUp(moved, costs_.bandwidth_gbs * ranks);
  }

  int64_t ReduceTime(const BufferOptions& options, int64_t elements) const {
    const int64_t bytes = elements * static_cast<int64_t>(SizeOf(config_.grad_dtype()));
    if (!options.use_distributed_optimizer) return RingTime(bytes, options.shards, 2);
    const int instances = config_.parallel.data.num_distributed_optimizer_instances;
    return RingTime(bytes, options.shards, 1) + RingTime(bytes / options.shards, instances, 2);
  }
  int64_t GatherTime(const BufferOptions& options, int64_t elements) const {
    if (!options.use_distributed_optimizer) return 0;
    const int64_t bytes = elements * static_cast<int64_t>(SizeOf(config_.dtype));
    return RingTime(bytes, options.shards, 1);
  }

  // A unit for each module, in the model's order. Returns by parameter the position of its unit.
  std::vector<int> AddUnits(const ChunkBuffers& chunk, TimelineChunk* added) const {
    const int head = 1 + static_cast<int>(config_.model.num_layers);
    std::vector<int> position;
    bool table_of_head = true;  // is there already, or there is no head
    for (const StageParameter& parameter : chunk.parameters) {
      const std::string module = parameter.name.substr(0, parameter.name.rfind('.'));
      const bool table = parameter.unit == head && module != "decoder.final_layernorm";
      if (parameter.unit == head) table_of_head = table;
      if (added->units.empty() || added->units.back().name != module) {
        added->units.push_back({module, 0, 0});
      }
      if (parameter.unit != 0) AddTime(table ? TableElements() : parameter.elements, added);
      position.push_back(static_cast<int>(added->units.size()) - 1);
    }
    if (!table_of_head) {
      added->units.push_back({"output_layer", 0, 0});
      AddTime(TableElements(), added);
    }
    return position;
  }
  void AddTime(int64_t elements, TimelineChunk* chunk) const {
    chunk->units.back().forward_ns += ComputeTime(elements, costs_.forward_ps);
    chunk->units.back().backward_ns += ComputeTime(elements, costs_.backward_ps);
  }
  int64_t TableElements() const {
    const int64_t tp = config_.parallel.tp;
    return (config_.model.padded_vocab_size + tp - 1) / tp * config_.model.hidden_size;
  }

  void AddChunk(int number) {
    const ChunkBuffers& chunk = stage_.chunks[static_cast<size_t>(number)];
    TimelineChunk& added = result_.input.chunks.emplace_back();
    std::vector<int>& groups = result_.groups.emplace_back();
    std::vector<int64_t>& sizes = result_.elements.emplace_back();
    const std::vector<int> position = AddUnits(chunk, &added);
    // A group is complete with the last of its buckets.
    for (auto place = stage_.ready_order.rbegin(); place != stage_.ready_order.rend(); ++place) {
      if (place->chunk != number) continue;
      const int group = chunk.GroupOf(place->buffer, place->bucket);
      if (std::find(groups.begin(), groups.end(), group) == groups.end()) groups.push_back(group);
    }
    std::reverse(groups.begin(), groups.end());
    for (int group : groups) {
      int64_t elements = 0;
      int first_unit = static_cast<int>(added.units.size()) - 1;
      for (const BucketGroup::Member& member : chunk.groups[static_cast<size_t>(group)].members) {
        const Bucket& bucket = stage_.At({number, member.buffer, member.bucket});
        elements += bucket.range.size();
        for (int parameter : bucket.parameters) {
          first_unit = std::min(first_unit, position[static_cast<size_t>(parameter)]);
        }
      }
      added.buckets.push_back(
          {first_unit, ReduceTime(chunk.options, elements), GatherTime(chunk.options, elements)});
      sizes.push_back(elements);
    }
  }

  void AddPasses() {
    const Schedule schedule = MakeSchedule(ScheduleConfigOf(config_));
    for (const Operation& operation : schedule.stages[static_cast<size_t>(stage_.stage)]) {
      if (!IsCompute(operation.kind)) continue;
      result_.input.passes.push_back(
          {PassOf(operation.kind), operation.chunk, operation.microbatch});
    }
  }
  static PassKind PassOf(OperationKind kind) {
    switch (kind) {
      case OperationKind::kForward:
        return PassKind::kForward;
      case OperationKind::kBackward:
        return PassKind::kBackward;
      case OperationKind::kBackwardInput:
        return PassKind::kBackwardInput;
      default:
        PL_CHECK(kind == OperationKind::kBackwardWeight);
        return PassKind::kBackwardWeight;
    }
  }

  const RunConfig& config_;
  const StageBuffers& stage_;
  const TimelineCosts& costs_;
  StageTimelineInput result_;
};

}  // namespace

StageTimelineInput MakeTimelineInput(const RunConfig& config, const StageBuffers& stage,
                                     const TimelineCosts& costs) {
  CheckCosts(costs);
  const ShardingStrategy strategy = config.parallel.data.sharding_strategy;
  if (strategy >= ShardingStrategy::kOptimGrads) {
    throw InvalidArgument(
        "--data-parallel-sharding-strategy {}: the timeline knows no_shard and optim alone",
        Name(strategy));
  }
  return Builder(config, stage, costs).Build();
}

}  // namespace plumbline
