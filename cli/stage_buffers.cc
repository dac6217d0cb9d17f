#include "cli/stage_buffers.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "parallel/pipeline/schedule_builder.h"
#include "parallel/pipeline/stage_layout.h"

namespace plumbline {
namespace {

std::vector<BufferParameter> ToBufferParameters(const RunConfig& config,
                                                const std::vector<StageParameter>& parameters) {
  std::vector<BufferParameter> result;
  for (const StageParameter& parameter : parameters) {
    result.push_back({.name = parameter.name,
                      .elements = parameter.elements,
                      .shared_embedding = parameter.shared_embedding,
                      .param_dtype = config.dtype,
                      .grad_dtype = config.grad_dtype()});
  }
  return result;
}

bool IsWordTable(const std::string& name) { return name == "embedding.word_embeddings.weight"; }

ChunkBuffers MakeChunk(const RunConfig& config, const StageSpec& spec, int stage, int chunk) {
  ChunkBuffers result;
  result.parameters = StageParameters(config, spec);
  result.options = BufferOptionsOf(config, stage, chunk);
  std::vector<BufferParameter> parameters = ToBufferParameters(config, result.parameters);
  if (config.parallel.data.sharding_strategy >= ShardingStrategy::kOptimGrads) {
    // Units are all that bounds buckets; a table that embedding and head use is one for itself.
    result.options = {.shards = result.options.shards, .use_distributed_optimizer = true};
    std::vector<int> units;
    for (size_t i = 0; i < parameters.size(); ++i) {
      units.push_back(result.parameters[i].unit);
      parameters[i].shared_embedding =
          config.model.tied_embeddings && IsWordTable(parameters[i].name);
    }
    result.layouts = LayOutUnits(parameters, units, result.options);
  } else {
    result.layouts = LayOutBuffers(parameters, result.options);
  }
  result.groups = GroupBuckets(result.layouts, result.options);
  return result;
}

// By chunk: where in the stage's work its last gradient is complete.
std::vector<size_t> LastBackwards(const RunConfig& config, int stage, size_t chunks) {
  const Schedule schedule = MakeSchedule(ScheduleConfigOf(config));
  const std::vector<Operation>& work = schedule.stages[static_cast<size_t>(stage)];
  std::vector<size_t> last(chunks, 0);
  for (size_t i = 0; i < work.size(); ++i) {
    if (work[i].kind == OperationKind::kBackward ||
        work[i].kind == OperationKind::kBackwardWeight) {
      last[static_cast<size_t>(work[i].chunk)] = i;
    }
  }
  return last;
}

// How many of a chunk's parameters have their gradients when the bucket has all of its own.
size_t GradientsUntil(const ChunkBuffers& chunk, const Bucket& bucket) {
  const int first_created = *std::min_element(bucket.parameters.begin(), bucket.parameters.end());
  return chunk.parameters.size() - static_cast<size_t>(first_created);
}

void SortByReadiness(const RunConfig& config, StageBuffers& stage) {
  const std::vector<size_t> last = LastBackwards(config, stage.stage, stage.chunks.size());
  std::vector<std::pair<std::pair<size_t, size_t>, BucketPlace>> order;
  for (size_t c = 0; c < stage.chunks.size(); ++c) {
    const std::vector<BufferLayout>& layouts = stage.chunks[c].layouts;
    for (size_t buffer = 0; buffer < layouts.size(); ++buffer) {
      for (size_t bucket = 0; bucket < layouts[buffer].buckets.size(); ++bucket) {
        const size_t until = GradientsUntil(stage.chunks[c], layouts[buffer].buckets[bucket]);
        order.push_back(
            {{last[c], until},
             {static_cast<int>(c), static_cast<int>(buffer), static_cast<int>(bucket)}});
      }
    }
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [when, place] : order) stage.ready_order.push_back(place);
}

}  // namespace

int ChunkBuffers::GroupOf(int buffer, int bucket) const {
  for (size_t i = 0; i < groups.size(); ++i) {
    const std::vector<BucketGroup::Member>& members = groups[i].members;
    if (std::find(members.begin(), members.end(), BucketGroup::Member{buffer, bucket}) !=
        members.end()) {
      return static_cast<int>(i);
    }
  }
  throw Internal("bucket {} of buffer {} is in no group", bucket, buffer);
}

const Bucket& StageBuffers::At(const BucketPlace& place) const {
  return chunks.at(static_cast<size_t>(place.chunk))
      .layouts.at(static_cast<size_t>(place.buffer))
      .buckets.at(static_cast<size_t>(place.bucket));
}

int64_t StageBuffers::elements() const {
  int64_t sum = 0;
  for (const ChunkBuffers& chunk : chunks) {
    for (const StageParameter& parameter : chunk.parameters) sum += parameter.elements;
  }
  return sum;
}

int64_t StageBuffers::padding() const {
  int64_t sum = 0;
  for (const ChunkBuffers& chunk : chunks) {
    for (const BufferLayout& layout : chunk.layouts) sum += layout.padding();
  }
  return sum;
}

StageBuffers StageBuffersOf(const RunConfig& config, int stage) {
  const StageLayout layout(config);
  StageBuffers result;
  result.stage = stage;
  for (int chunk = 0; chunk < layout.chunks(); ++chunk) {
    result.chunks.push_back(MakeChunk(config, layout.At(stage, chunk), stage, chunk));
  }
  SortByReadiness(config, result);
  return result;
}

}  // namespace plumbline
