// Buckets whose gradients are reduced together, and whose weights are gathered together.
//
// Each gradient reports itself ready; the group's collectives go out with the last one, or at the
// latest when they are waited for. Gradients are divided on the compute stream before a sum, or by
// the collective (average_in_collective). Sharded: reduce_scatter within the optimizer instance,
// then, with several instances, all_reduce of the own shard between them; without: all_reduce.
//
// Comm:     per bucket one collective (two with several instances) and, sharded, one all_gather;
//           on the communication stream, asynchronous, in place.
// Numerics: members add in group order, in the gradients' dtype; the division comes first.
// Source:   Megatron-Core distributed/param_and_grad_buffer.py, _ParamAndGradBucketGroup.
#ifndef PLUMBLINE_PARALLEL_DATA_BUCKET_GROUP_H_
#define PLUMBLINE_PARALLEL_DATA_BUCKET_GROUP_H_

#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "parallel/comm/streams.h"
#include "parallel/data/param_and_grad_buffer.h"
#include "parallel/data/sharding.h"

namespace plumbline {

// How gradients of data-parallel ranks are joined: a division before the sum, or none.
struct GradientReduction {
  ReduceOp op = ReduceOp::kSum;
  int64_t divisor = 1;  // before it
};
GradientReduction GradientReductionOf(const RankEnv& env, const ShardGroups& groups);

class BucketGroupSync {
 public:
  struct Member {
    ParamAndGradBuffer* buffer = nullptr;
    int buffer_number = 0;
    int bucket = 0;
  };
  // `number` in its chunk (-1: the only one). All references outlive it.
  BucketGroupSync(const RankEnv& env, Streams& streams, const ShardGroups& groups,
                  std::vector<Member> members, int number, int chunk);

  void BeginStep(int64_t step);
  // One of the group's parameters has all of its last microbatch's gradient.
  void MarkReady(const Parameter& parameter);
  bool ready() const { return ready_.size() == parameters_.size(); }
  bool started() const { return started_; }
  // Parameters that have not reported, in creation order.
  std::vector<const Parameter*> Missing() const;

  void StartGradSync();
  void FinishGradSync();
  // `gathered` runs on the communication stream when the weights are there.
  void StartParamSync(const std::function<void()>& gathered);
  void FinishParamSync();
  const std::vector<Parameter*>& parameters() const { return parameters_; }

 private:
  Site SiteOf(const Member& member, Phase phase, Quantity quantity) const;
  void Reduce(const Member& member);
  void Scale();

  const RankEnv& env_;
  Streams& streams_;
  const ShardGroups& groups_;
  const std::vector<Member> members_;
  const int number_;
  const int chunk_;
  const bool sharded_;
  std::vector<Parameter*> parameters_;
  std::set<const Parameter*> ready_;
  int64_t step_ = 0;
  bool started_ = false;
  bool gathering_ = false;
  StreamEvent reduced_ = -1;
  StreamEvent gathered_ = -1;
};

// The shard of a bucket that a collective gives to, and takes from, a rank. A bucket that does not
// divide leaves its last elements to nobody.
BufferRange CollectiveShard(const Bucket& bucket, int shard, int shards);
// All that the shards make up.
BufferRange CollectiveRange(const Bucket& bucket, int shards);

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_DATA_BUCKET_GROUP_H_
