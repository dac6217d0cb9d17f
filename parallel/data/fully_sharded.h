// A model chunk whose gradients (optim_grads), or gradients and weights (optim_grads_params), exist
// between their uses as shards alone.
//
// A unit (embedding, layer, head) is a bucket, and a tied table one of its own. Weights are
// gathered before a unit's forward and again before its backward, and dropped afterwards; with
// optim_grads they stay, and are gathered once a step. The backward of each microbatch writes its
// gradients to a send buffer, which is reduce-scattered and added to the rank's shard. With overlap
// the next unit's weights are gathered, and a unit's gradients reduced, while another one computes.
//
// Comm:     per unit and microbatch one reduce_scatter; one all_gather a step (optim_grads), or two
//           a microbatch (optim_grads_params).
// Numerics: a microbatch's gradients add over ranks first, then over microbatches.
// Source:   Megatron-Core distributed/fsdp, data_parallel_sharding_strategy.
#ifndef PLUMBLINE_PARALLEL_DATA_FULLY_SHARDED_H_
#define PLUMBLINE_PARALLEL_DATA_FULLY_SHARDED_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "parallel/comm/streams.h"
#include "parallel/data/buffer_layout.h"
#include "parallel/data/data_parallel_chunk.h"
#include "parallel/data/sharding.h"

namespace plumbline {

class FullyShardedDataParallel : public DataParallelChunk {
 public:
  // As DistributedDataParallel.
  FullyShardedDataParallel(const RankEnv& env, Streams& streams,
                           const std::vector<std::vector<Parameter*>>& units, int chunk);

  void Add(Parameter& parameter, const Pass& pass, const Tensor& gradient) override;
  void BeforeForward(const Pass& pass, int unit) override;
  void AfterForward(const Pass& pass, int unit) override;
  void BeforeBackward(const Pass& pass, int unit) override;
  void AfterBackward(const Pass& pass, int unit) override;

  void BeginStep(int64_t step) override;
  void BeginBackward(int microbatch) override;
  void FinishGradSync() override;
  void StartParamSync() override;
  void FinishParamSync() override;

 private:
  struct Laid {
    Parameter* parameter;
    BufferRange range;  // within the bucket
  };
  struct Shards {
    int number = 0;
    int unit = 0;
    std::vector<Laid> parameters;
    int64_t elements = 0;
    Tensor own_weights;  // [elements / shards]
    Tensor own_grads;
    Tensor weights;  // all of them, where they are
    Tensor grads;    // of the microbatch whose backward runs
    bool gathering = false;
    StreamEvent gathered = -1;
  };
  // A reduce_scatter under way.
  struct Reduction {
    Shards* shards;
    Tensor send;
    Tensor received;
    StreamEvent done;
    Site site;
  };

  void LayOut();
  void ZeroGradients(int microbatch);
  void Fill(Shards& shards);
  void ShareOut(Shards& shards);
  std::vector<Shards*> Of(int unit);
  Site SiteOf(const Shards& shards, const Pass& pass, Phase phase, Quantity quantity) const;
  void StartGather(Shards& shards, const Pass& pass);
  void FinishGather(Shards& shards);
  void Gather(const Pass& pass, int unit, int next_unit);
  void Reshard(int unit);
  void StartReduction(Shards& shards, const Pass& pass);
  void CollectReductions(size_t leave);
  Tensor TakeSendBuffer(const Shards& shards);
  void ShowParameters(const Shards& shards, int64_t step) const;

  const RankEnv& env_;
  Streams& streams_;
  const std::vector<std::vector<Parameter*>> units_;
  const int chunk_;
  const ShardGroups groups_;
  const bool shards_weights_;
  std::deque<Shards> shards_;  // stay where they are
  std::deque<Reduction> reductions_;
  std::vector<Tensor> free_send_buffers_;
  int64_t step_ = 0;
};

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_DATA_FULLY_SHARDED_H_
