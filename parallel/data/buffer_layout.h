// Where parameters and their main gradients lie in contiguous buffers, and how buckets cut those:
// pure data.
//
// One buffer per (parameter dtype, gradient dtype, expert or not). Parameters lie in reverse
// creation order, roughly the order in which their gradients come. A bucket, the unit of
// communication, closes once it holds bucket_size elements. With the distributed optimizer each
// parameter starts at a multiple of 64 elements and each bucket ends at a multiple of what shards
// it evenly, and a tied embedding has a bucket of its own, so that the first and the last stage
// shard it alike.
//
// Source:   Megatron-Core distributed/param_and_grad_buffer.py, distributed_data_parallel.py.
#ifndef PLUMBLINE_PARALLEL_DATA_BUFFER_LAYOUT_H_
#define PLUMBLINE_PARALLEL_DATA_BUFFER_LAYOUT_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/dtype.h"

namespace plumbline {

struct BufferParameter {
  std::string name;
  int64_t elements = 0;
  bool shared_embedding = false;
  DType param_dtype = DType::kF32;
  DType grad_dtype = DType::kF32;
  bool expert = false;
};

struct BufferOptions {
  // Members of the group that shards a bucket: data-parallel and context-parallel ranks of one
  // optimizer instance.
  int shards = 1;
  bool use_distributed_optimizer = false;
  std::optional<int64_t> bucket_size = {};  // elements; none: one bucket
  bool pad_for_high_nccl_busbw = false;
  // All buckets of dense, and all of expert, parameters communicate as one.
  bool single_bucket_group = false;
};

// Elements of a buffer.
struct BufferRange {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
  bool operator==(const BufferRange&) const = default;
};

struct ParameterRange {
  int parameter = 0;  // index in the list that was laid out
  BufferRange range;
  int bucket = 0;
};

struct Bucket {
  BufferRange range;            // padding included
  int64_t unpadded_end = 0;     // of its last parameter
  int unit = -1;                // of LayOutUnits
  std::vector<int> parameters;  // indices in the list that was laid out, in buffer order
};

struct BufferLayout {
  DType param_dtype = DType::kF32;
  DType grad_dtype = DType::kF32;
  bool expert = false;
  std::vector<ParameterRange> ranges;  // in buffer order
  std::vector<Bucket> buckets;

  int64_t elements() const { return buckets.empty() ? 0 : buckets.back().range.end; }
  // What no parameter covers.
  int64_t padding() const;
};

// What one collective call, coalesced over its buckets, carries.
struct BucketGroup {
  struct Member {
    int buffer = 0;
    int bucket = 0;

    bool operator==(const Member&) const = default;
  };
  std::vector<Member> members;
};

// `parameters` in creation order. Buffers come in the order in which their key first appears there,
// dense ones first.
std::vector<BufferLayout> LayOutBuffers(std::span<const BufferParameter> parameters,
                                        const BufferOptions& options);

// The same with one bucket per unit (and one more for a tied embedding in it) whatever its size, as
// sharding strategies from optim_grads on gather and reduce: units[i] is the unit of parameters[i].
// A unit's parameters follow each other.
std::vector<BufferLayout> LayOutUnits(std::span<const BufferParameter> parameters,
                                      std::span<const int> units, const BufferOptions& options);

// In the order in which gradients complete them; experts apart from the rest. One bucket a group
// but under single_bucket_group.
std::vector<BucketGroup> GroupBuckets(std::span<const BufferLayout> layouts,
                                      const BufferOptions& options);

// Buckets only where their collectives are on the critical path: one bucket without
// overlap_grad_reduce, on stages after the first, and on a stage's chunks after the first.
BufferOptions BufferOptionsOf(const RunConfig& config, int stage, int chunk);

// bucket_size, or by default max(40,000,000, 1,000,000 * dp): large rings stay bound by bandwidth.
int64_t BucketSizeOf(const ParallelConfig& parallel);

// What a bucket of the distributed optimizer ends at a multiple of.
int64_t BucketDivisor(const BufferOptions& options);

// The part of a bucket, in elements of its buffer, that rank `shard` of `shards` owns. The bucket's
// size is a multiple of `shards`.
BufferRange ShardOf(const Bucket& bucket, int shard, int shards);

// Empty (begin == end) where they do not meet.
BufferRange Intersection(const BufferRange& a, const BufferRange& b);

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_DATA_BUFFER_LAYOUT_H_
