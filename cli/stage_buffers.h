// The gradient buffers of one pipeline stage's ranks, and when their buckets are complete: pure
// data.
#ifndef PLUMBLINE_CLI_STAGE_BUFFERS_H_
#define PLUMBLINE_CLI_STAGE_BUFFERS_H_

#include <vector>

#include "base/config.h"
#include "parallel/data/buffer_layout.h"
#include "parallel/model/stage_parameters.h"

namespace plumbline {

struct ChunkBuffers {
  std::vector<StageParameter> parameters;  // in creation order
  BufferOptions options;
  std::vector<BufferLayout> layouts;
  std::vector<BucketGroup> groups;

  int GroupOf(int buffer, int bucket) const;
};

struct BucketPlace {
  int chunk = 0;
  int buffer = 0;
  int bucket = 0;

  bool operator==(const BucketPlace&) const = default;
};

struct StageBuffers {
  int stage = 0;
  std::vector<ChunkBuffers> chunks;
  // In the order in which the last microbatch's backward brings their last gradients: chunks as the
  // schedule runs them, and within one the parameters in reverse creation order.
  std::vector<BucketPlace> ready_order;

  const Bucket& At(const BucketPlace& place) const;
  int64_t elements() const;  // of its parameters
  int64_t padding() const;
};

// The same on every tensor-, context- and data-parallel rank of the stage. Buckets of strategies
// from optim_grads on are units of the model. `config` is valid.
StageBuffers StageBuffersOf(const RunConfig& config, int stage);

}  // namespace plumbline

#endif  // PLUMBLINE_CLI_STAGE_BUFFERS_H_
