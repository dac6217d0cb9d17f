// plumbline buffers.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/mesh.h"
#include "cli/describing_commands.h"
#include "cli/run_options.h"
#include "cli/stage_buffers.h"

namespace plumbline {
namespace {

using Json = nlohmann::ordered_json;
using Rows = std::vector<std::vector<std::string>>;

// The rank of --rank and those that share its buckets out with it.
struct OneRank {
  int rank = 0;
  int stage = 0;
  int shard = 0;
  std::vector<int> members;
};

OneRank Locate(const ParallelConfig& parallel, int rank) {
  const Mesh mesh(parallel);
  if (rank >= mesh.world_size()) {
    throw InvalidArgument("--rank {}: the layout has {} ranks", rank, mesh.world_size());
  }
  const Group& group = mesh.GroupOf("dp-cp", rank);
  const int size = group.size() / parallel.data.num_distributed_optimizer_instances;
  const int position = group.IndexOf(rank);
  const auto first = group.members.begin() + position / size * size;
  return {rank, mesh.CoordinateOf(rank, "pp"), position % size, {first, first + size}};
}

struct OwnedRange {
  int shard = 0;
  BufferRange range;  // in elements of the parameter
};

std::vector<OwnedRange> OwnersOf(const ParameterRange& parameter, const Bucket& bucket,
                                 int shards) {
  std::vector<OwnedRange> owners;
  for (int shard = 0; shard < shards; ++shard) {
    const BufferRange own = Intersection(parameter.range, ShardOf(bucket, shard, shards));
    if (own.size() == 0) continue;
    owners.push_back({shard, {own.begin - parameter.range.begin, own.end - parameter.range.begin}});
  }
  return owners;
}

std::string RangeText(const BufferRange& range) {
  return fmt::format("[{}, {})", range.begin, range.end);
}

std::string OwnersText(const std::vector<OwnedRange>& owners, std::optional<int> only) {
  constexpr size_t kMost = 4;
  std::vector<std::string> words;
  for (const OwnedRange& owner : owners) {
    if (only && owner.shard != *only) continue;
    words.push_back(fmt::format("{} {}", owner.shard, RangeText(owner.range)));
  }
  if (words.empty()) return "-";
  if (words.size() > kMost) {
    words = {words[0], words[1], fmt::format(".. {} more ..", words.size() - 3), words.back()};
  }
  return fmt::format("{}", fmt::join(words, "  "));
}

std::string SizeRule(const RunConfig& config, const StageBuffers& stage) {
  const DataParallelConfig& data = config.parallel.data;
  if (data.sharding_strategy >= ShardingStrategy::kOptimGrads) {
    return "a bucket for each unit of the model";
  }
  if (!data.overlap_grad_reduce) return "one bucket, without --overlap-grad-reduce";
  if (stage.stage > 0) return "one bucket, on stages after the first";
  std::string text = fmt::format("buckets of at least {} elements", BucketSizeOf(config.parallel));
  if (stage.chunks.size() > 1) text += " in chunk 0, one in each of the others";
  return text;
}

bool AnyTiedAlone(const StageBuffers& stage) {
  for (const ChunkBuffers& chunk : stage.chunks) {
    if (!chunk.options.use_distributed_optimizer) continue;
    for (const StageParameter& parameter : chunk.parameters) {
      if (parameter.shared_embedding) return true;
    }
  }
  return false;
}

std::string BucketRule(const RunConfig& config, const StageBuffers& stage) {
  return SizeRule(config, stage) + (AnyTiedAlone(stage) ? "; the tied embedding apart" : "");
}

int ReadyPosition(const StageBuffers& stage, const BucketPlace& place) {
  const auto found = std::find(stage.ready_order.begin(), stage.ready_order.end(), place);
  PL_CHECK(found != stage.ready_order.end());
  return static_cast<int>(found - stage.ready_order.begin());
}

std::string Number(int64_t value) { return fmt::format("{}", value); }

// Calls visit(chunk, buffer, layout) for every buffer.
template <class F>
void ForEachBuffer(const StageBuffers& stage, F&& visit) {
  for (size_t c = 0; c < stage.chunks.size(); ++c) {
    for (size_t b = 0; b < stage.chunks[c].layouts.size(); ++b) {
      visit(static_cast<int>(c), static_cast<int>(b), stage.chunks[c].layouts[b]);
    }
  }
}

std::string BufferTable(const StageBuffers& stage) {
  Rows rows = {{"chunk", "buffer", "parameters", "gradients", "elements", "padding", "buckets"}};
  ForEachBuffer(stage, [&](int chunk, int buffer, const BufferLayout& layout) {
    rows.push_back({Number(chunk), Number(buffer), std::string(Name(layout.param_dtype)),
                    std::string(Name(layout.grad_dtype)), Number(layout.elements()),
                    Number(layout.padding()), Number(static_cast<int64_t>(layout.buckets.size()))});
  });
  return FormatTable(rows, {0, 1, 4, 5, 6});
}

std::string BucketTable(const StageBuffers& stage) {
  Rows rows = {
      {"chunk", "buffer", "bucket", "group", "ready", "begin", "end", "padding", "parameters"}};
  for (size_t i = 0; i < stage.ready_order.size(); ++i) {
    const BucketPlace& place = stage.ready_order[i];
    const ChunkBuffers& chunk = stage.chunks[static_cast<size_t>(place.chunk)];
    const BufferLayout& layout = chunk.layouts[static_cast<size_t>(place.buffer)];
    const Bucket& bucket = stage.At(place);
    int64_t padding = bucket.range.size();
    for (const ParameterRange& parameter : layout.ranges) {
      if (parameter.bucket == place.bucket) padding -= parameter.range.size();
    }
    rows.push_back({Number(place.chunk), Number(place.buffer), Number(place.bucket),
                    Number(chunk.GroupOf(place.buffer, place.bucket)),
                    Number(static_cast<int64_t>(i)), Number(bucket.range.begin),
                    Number(bucket.range.end), Number(padding),
                    Number(static_cast<int64_t>(bucket.parameters.size()))});
  }
  return FormatTable(rows, {0, 1, 2, 3, 4, 5, 6, 7, 8});
}

std::string ParameterTable(const StageBuffers& stage, std::optional<int> shard) {
  Rows rows = {{"chunk", "buffer", "bucket", "group", "begin", "end", "parameter",
                shard ? "own part" : "owners"}};
  ForEachBuffer(stage, [&](int chunk, int buffer, const BufferLayout& layout) {
    const ChunkBuffers& of = stage.chunks[static_cast<size_t>(chunk)];
    for (const ParameterRange& parameter : layout.ranges) {
      const Bucket& bucket = layout.buckets[static_cast<size_t>(parameter.bucket)];
      const std::string owners =
          of.options.use_distributed_optimizer
              ? OwnersText(OwnersOf(parameter, bucket, of.options.shards), shard)
              : "all";
      rows.push_back({Number(chunk), Number(buffer), Number(parameter.bucket),
                      Number(of.GroupOf(buffer, parameter.bucket)), Number(parameter.range.begin),
                      Number(parameter.range.end),
                      of.parameters[static_cast<size_t>(parameter.parameter)].name, owners});
    }
  });
  return FormatTable(rows, {0, 1, 2, 3, 4, 5});
}

std::string StageText(const Console& console, const RunConfig& config, const StageBuffers& stage,
                      const std::optional<OneRank>& rank) {
  std::string text =
      Paint(console, Colour::kBold, fmt::format("stage {} of {}", stage.stage, config.parallel.pp));
  text += fmt::format(": {} elements and {} of padding; {}\n", stage.elements(), stage.padding(),
                      BucketRule(config, stage));
  const int shards = stage.chunks[0].options.shards;
  if (rank) {
    text += fmt::format("rank {}: shard {} of {}, with ranks {}\n", rank->rank, rank->shard, shards,
                        fmt::join(rank->members, ", "));
  }
  const DataParallelConfig& data = config.parallel.data;
  text += fmt::format("{}: {} over {} ranks", Name(data.sharding_strategy),
                      stage.chunks[0].options.use_distributed_optimizer ? "buckets are shared out"
                                                                        : "nothing is shared out",
                      shards);
  if (data.num_distributed_optimizer_instances > 1) {
    text += fmt::format(" of each of {} instances", data.num_distributed_optimizer_instances);
  }
  text += "\n\n";
  return text + BufferTable(stage) + "\n" + BucketTable(stage) + "\n" +
         ParameterTable(stage, rank ? std::optional(rank->shard) : std::nullopt);
}

Json BufferJson(const StageBuffers& stage, int chunk, int buffer, const BufferLayout& layout) {
  const ChunkBuffers& of = stage.chunks[static_cast<size_t>(chunk)];
  Json buckets = Json::array();
  for (size_t i = 0; i < layout.buckets.size(); ++i) {
    const Bucket& bucket = layout.buckets[i];
    const int number = static_cast<int>(i);
    buckets.push_back({{"bucket", number},
                       {"group", of.GroupOf(buffer, number)},
                       {"ready", ReadyPosition(stage, {chunk, buffer, number})},
                       {"begin", bucket.range.begin},
                       {"unpadded_end", bucket.unpadded_end},
                       {"end", bucket.range.end},
                       {"unit", bucket.unit < 0 ? Json(nullptr) : Json(bucket.unit)}});
  }
  Json parameters = Json::array();
  for (const ParameterRange& parameter : layout.ranges) {
    Json owners = Json::array();
    if (of.options.use_distributed_optimizer) {
      const Bucket& bucket = layout.buckets[static_cast<size_t>(parameter.bucket)];
      for (const OwnedRange& owner : OwnersOf(parameter, bucket, of.options.shards)) {
        owners.push_back(
            {{"shard", owner.shard}, {"begin", owner.range.begin}, {"end", owner.range.end}});
      }
    }
    parameters.push_back({{"name", of.parameters[static_cast<size_t>(parameter.parameter)].name},
                          {"bucket", parameter.bucket},
                          {"begin", parameter.range.begin},
                          {"end", parameter.range.end},
                          {"owners", std::move(owners)}});
  }
  return {{"chunk", chunk},
          {"buffer", buffer},
          {"param_dtype", Name(layout.param_dtype)},
          {"grad_dtype", Name(layout.grad_dtype)},
          {"elements", layout.elements()},
          {"padding", layout.padding()},
          {"buckets", std::move(buckets)},
          {"parameters", std::move(parameters)}};
}

Json StageJson(const StageBuffers& stage) {
  Json buffers = Json::array();
  ForEachBuffer(stage, [&](int chunk, int buffer, const BufferLayout& layout) {
    buffers.push_back(BufferJson(stage, chunk, buffer, layout));
  });
  return {{"stage", stage.stage}, {"buffers", std::move(buffers)}};
}

std::string ToJson(const RunConfig& config, const std::vector<StageBuffers>& stages,
                   const std::optional<OneRank>& rank) {
  const BufferOptions& options = stages[0].chunks[0].options;
  const DataParallelConfig& data = config.parallel.data;
  Json json = {{"data_parallel_sharding_strategy", Name(data.sharding_strategy)},
               {"shards", options.use_distributed_optimizer ? options.shards : 1},
               {"num_distributed_optimizer_instances", data.num_distributed_optimizer_instances}};
  if (rank) {
    json["rank"] = {{"rank", rank->rank}, {"shard", rank->shard}, {"with_ranks", rank->members}};
  }
  Json list = Json::array();
  for (const StageBuffers& stage : stages) list.push_back(StageJson(stage));
  json["stages"] = std::move(list);
  return json.dump(2) + "\n";
}

}  // namespace

int RunBuffers(const CommandLine& line, const Console& console) {
  std::vector<std::string> notes;
  const RunConfig config = MakeDescribedConfig(line, &notes);
  std::optional<OneRank> rank;
  if (line.options.Text("--rank")) {
    int number = 0;
    line.options.Read("--rank", &number);
    rank = Locate(config.parallel, number);
  }
  std::vector<StageBuffers> stages;
  for (int stage = 0; stage < config.parallel.pp; ++stage) {
    if (!rank || rank->stage == stage) stages.push_back(StageBuffersOf(config, stage));
  }
  if (line.json) {
    console.out << ToJson(config, stages, rank);
    return 0;
  }
  for (const std::string& note : notes) console.out << "note: " << note << "\n";
  for (size_t i = 0; i < stages.size(); ++i) {
    console.out << (i > 0 ? "\n" : "") << StageText(console, config, stages[i], rank);
  }
  return 0;
}

}  // namespace plumbline
