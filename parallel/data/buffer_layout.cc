#include "parallel/data/buffer_layout.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "base/error.h"

namespace plumbline {
namespace {

// Parameters start at addresses that are multiples of 128 bytes, buckets at multiples of 256, with
// elements of two bytes or more.
constexpr int64_t kParameterAlignment = 64;
constexpr int64_t kBucketAlignment = 128;
// What a rank's share of a ring's message must be a multiple of for full bus bandwidth.
constexpr int64_t kBusAlignment = int64_t{1} << 16;

int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Fills one buffer, parameter by parameter.
class Filler {
 public:
  Filler(const BufferOptions& options, BufferLayout& layout) : options_(options), layout_(layout) {}

  void Add(int index, const BufferParameter& parameter, int unit) {
    const bool sharded = options_.use_distributed_optimizer;
    const bool alone = sharded && parameter.shared_embedding;
    if (!open_.parameters.empty() && (alone || unit != open_.unit)) Close();
    open_.unit = unit;
    const int64_t begin = sharded ? RoundUp(position_, kParameterAlignment) : position_;
    position_ = begin + parameter.elements;
    layout_.ranges.push_back({index, {begin, position_}, static_cast<int>(layout_.buckets.size())});
    open_.parameters.push_back(index);
    const int64_t filled = position_ - open_.range.begin;
    if (alone || (options_.bucket_size && filled >= *options_.bucket_size)) Close();
  }

  void Close() {
    if (open_.parameters.empty()) return;
    open_.unpadded_end = position_;
    if (options_.use_distributed_optimizer) position_ = RoundUp(position_, BucketDivisor(options_));
    open_.range.end = position_;
    layout_.buckets.push_back(std::move(open_));
    open_ = {};
    open_.range.begin = position_;
  }

 private:
  const BufferOptions& options_;
  BufferLayout& layout_;
  Bucket open_;
  int64_t position_ = 0;
};

bool SameBuffer(const BufferLayout& layout, const BufferParameter& parameter) {
  return layout.param_dtype == parameter.param_dtype && layout.grad_dtype == parameter.grad_dtype &&
         layout.expert == parameter.expert;
}

std::vector<BufferLayout> EmptyBuffers(std::span<const BufferParameter> parameters) {
  std::vector<BufferLayout> layouts;
  for (bool expert : {false, true}) {
    for (const BufferParameter& parameter : parameters) {
      if (parameter.expert != expert) continue;
      const bool known =
          std::any_of(layouts.begin(), layouts.end(),
                      [&](const BufferLayout& layout) { return SameBuffer(layout, parameter); });
      if (known) continue;
      layouts.push_back({parameter.param_dtype, parameter.grad_dtype, expert, {}, {}});
    }
  }
  return layouts;
}

void CheckUnits(std::span<const int> units) {
  std::set<int> seen;
  for (size_t i = 0; i < units.size(); ++i) {
    PL_CHECK(units[i] >= 0);
    if (i > 0 && units[i] == units[i - 1]) continue;
    const bool is_new = seen.insert(units[i]).second;
    PL_CHECK(is_new);
  }
}

// `units` may be empty: no unit.
std::vector<BufferLayout> LayOut(std::span<const BufferParameter> parameters,
                                 std::span<const int> units, const BufferOptions& options) {
  PL_CHECK(options.shards >= 1);
  PL_CHECK(options.bucket_size.value_or(1) >= 1);
  std::vector<BufferLayout> layouts = EmptyBuffers(parameters);
  for (BufferLayout& layout : layouts) {
    Filler filler(options, layout);
    for (size_t i = parameters.size(); i-- > 0;) {
      if (!SameBuffer(layout, parameters[i])) continue;
      PL_CHECK(parameters[i].elements >= 0);
      filler.Add(static_cast<int>(i), parameters[i], units.empty() ? -1 : units[i]);
    }
    filler.Close();
  }
  return layouts;
}

}  // namespace

int64_t BufferLayout::padding() const {
  int64_t covered = 0;
  for (const ParameterRange& parameter : ranges) covered += parameter.range.size();
  return elements() - covered;
}

std::vector<BufferLayout> LayOutBuffers(std::span<const BufferParameter> parameters,
                                        const BufferOptions& options) {
  return LayOut(parameters, {}, options);
}

std::vector<BufferLayout> LayOutUnits(std::span<const BufferParameter> parameters,
                                      std::span<const int> units, const BufferOptions& options) {
  PL_CHECK(units.size() == parameters.size());
  CheckUnits(units);
  BufferOptions by_unit = options;
  by_unit.use_distributed_optimizer = true;
  by_unit.bucket_size.reset();
  return LayOut(parameters, units, by_unit);
}

std::vector<BucketGroup> GroupBuckets(std::span<const BufferLayout> layouts,
                                      const BufferOptions& options) {
  std::vector<BucketGroup> groups;
  for (bool expert : {false, true}) {
    bool open = false;
    for (size_t buffer = 0; buffer < layouts.size(); ++buffer) {
      if (layouts[buffer].expert != expert) continue;
      for (size_t bucket = 0; bucket < layouts[buffer].buckets.size(); ++bucket) {
        if (!open) groups.emplace_back();
        groups.back().members.push_back({static_cast<int>(buffer), static_cast<int>(bucket)});
        open = options.single_bucket_group;
      }
    }
  }
  return groups;
}

BufferOptions BufferOptionsOf(const RunConfig& config, int stage, int chunk) {
  const ParallelConfig& parallel = config.parallel;
  const DataParallelConfig& data = parallel.data;
  BufferOptions options;
  options.shards = parallel.dp * parallel.cp / data.num_distributed_optimizer_instances;
  options.use_distributed_optimizer = data.use_distributed_optimizer();
  options.pad_for_high_nccl_busbw = data.pad_buckets_for_high_nccl_busbw;
  options.single_bucket_group = chunk > 0;
  if (data.overlap_grad_reduce && stage == 0 && chunk == 0) {
    options.bucket_size = BucketSizeOf(parallel);
  }
  return options;
}

int64_t BucketSizeOf(const ParallelConfig& parallel) {
  if (parallel.data.bucket_size > 0) return parallel.data.bucket_size;
  return std::max<int64_t>(40'000'000, int64_t{1'000'000} * parallel.dp);
}

int64_t BucketDivisor(const BufferOptions& options) {
  const int64_t even = std::lcm<int64_t>(options.shards, kBucketAlignment);
  return options.pad_for_high_nccl_busbw ? std::lcm(even, kBusAlignment) : even;
}

BufferRange ShardOf(const Bucket& bucket, int shard, int shards) {
  PL_CHECK(shard >= 0);
  PL_CHECK(shard < shards);
  PL_CHECK(bucket.range.size() % shards == 0);
  const int64_t size = bucket.range.size() / shards;
  return {bucket.range.begin + shard * size, bucket.range.begin + (shard + 1) * size};
}

BufferRange Intersection(const BufferRange& a, const BufferRange& b) {
  const int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

}  // namespace plumbline
