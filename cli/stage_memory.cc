#include "cli/stage_memory.h"

#include "base/error.h"

namespace plumbline {
namespace {

// Elements of a stage's buffers on one rank.
struct Elements {
  int64_t parameters = 0;    // of the stage
  int64_t buffers = 0;       // padding included
  int64_t buffer_shard = 0;  // of that, one shard
  int64_t owned = 0;         // parameters' elements in that shard
};

Elements CountElements(const StageBuffers& stage, int shard) {
  Elements elements;
  elements.parameters = stage.elements();
  for (const ChunkBuffers& chunk : stage.chunks) {
    const BufferOptions& options = chunk.options;
    for (const BufferLayout& layout : chunk.layouts) {
      elements.buffers += layout.elements();
      if (!options.use_distributed_optimizer) continue;
      elements.buffer_shard += layout.elements() / options.shards;
      for (const ParameterRange& parameter : layout.ranges) {
        const Bucket& bucket = layout.buckets[static_cast<size_t>(parameter.bucket)];
        elements.owned +=
            Intersection(parameter.range, ShardOf(bucket, shard, options.shards)).size();
      }
    }
  }
  return elements;
}

int64_t ElementsOf(const StateBytes& state, ShardingStrategy strategy, const Elements& elements) {
  switch (state.state) {
    case MemoryState::kWeights:
      if (state.sharded) return elements.buffer_shard;
      return strategy == ShardingStrategy::kNoShard ? elements.parameters : elements.buffers;
    case MemoryState::kMainGrads:
      return state.sharded ? elements.buffer_shard : elements.buffers;
    case MemoryState::kGradCopies:
      return 0;
    case MemoryState::kMasters:
    case MemoryState::kMoments:
      return state.sharded ? elements.owned : elements.parameters;
  }
  throw Internal("a memory state of value {}", static_cast<int>(state.state));
}

}  // namespace

std::vector<StateMemory> StageMemory(const RunConfig& config, const StageBuffers& stage,
                                     int shard) {
  const Elements elements = CountElements(stage, shard);
  const int shards = stage.chunks.at(0).options.shards;
  std::vector<StateMemory> memory;
  for (const StateBytes& state : MemoryFormula(config)) {
    const ShardingStrategy strategy = config.parallel.data.sharding_strategy;
    memory.push_back({state, FormulaBytes({state}, elements.parameters, shards),
                      ElementsOf(state, strategy, elements) * state.bytes});
  }
  return memory;
}

}  // namespace plumbline
