// A model chunk's gradients in contiguous buffers, reduced bucket by bucket, with or without
// overlap; with the distributed optimizer (`optim`) also its weights, gathered after the update.
//
// Overlapped reductions start from the hook of the last gradient of their bucket, in the order of
// buckets whatever comes first, so that a parameter that gets no gradient on one rank is reported
// and never a hang. Overlapped gathers are waited for where a unit of the model first uses the
// weights.
//
// Comm:     parallel/data/bucket_group.h.
// Source:   Megatron-Core distributed/distributed_data_parallel.py.
#ifndef PLUMBLINE_PARALLEL_DATA_DISTRIBUTED_DATA_PARALLEL_H_
#define PLUMBLINE_PARALLEL_DATA_DISTRIBUTED_DATA_PARALLEL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "parallel/data/bucket_group.h"
#include "parallel/data/data_parallel_chunk.h"

namespace plumbline {

class DistributedDataParallel : public DataParallelChunk {
 public:
  // `units`: the chunk's parameters in creation order, by unit of the model; one that two units use
  // is listed with both. `chunk` is that of the stage.
  DistributedDataParallel(const RankEnv& env, Streams& streams,
                          const std::vector<std::vector<Parameter*>>& units, int chunk);

  void Add(Parameter& parameter, const Pass& pass, const Tensor& gradient) override;
  void BeforeForward(const Pass& pass, int unit) override;
  void AfterForward(const Pass&, int) override {}
  void BeforeBackward(const Pass&, int) override {}
  void AfterBackward(const Pass&, int) override {}

  void BeginStep(int64_t step) override;
  void BeginBackward(int microbatch) override;
  void FinishGradSync() override;
  void StartParamSync() override;
  void FinishParamSync() override;

 private:
  void LayOut(int chunk);
  void ReportLayout() const;
  void ShareOut();
  void ZeroGradients(int microbatch);
  void StartReadyGroups();
  void ShowParameters(const BucketGroupSync& group, int64_t step) const;
  void PoisonOtherShards();

  const RankEnv& env_;
  Streams& streams_;
  const std::vector<std::vector<Parameter*>> units_;
  const std::vector<Parameter*> parameters_;
  const ShardGroups groups_;
  const bool sharded_;
  const bool overlaps_grads_;
  const bool overlaps_params_;
  std::vector<std::unique_ptr<ParamAndGradBuffer>> buffers_;
  std::vector<BucketGroupSync> bucket_groups_;
  std::map<const Parameter*, int> group_of_;
  std::map<const Parameter*, int> gradients_;  // of the current microbatch
  size_t next_group_ = 0;                      // to start its reduction
  int64_t step_ = 0;
  bool last_microbatch_ = false;
};

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_DATA_DISTRIBUTED_DATA_PARALLEL_H_
