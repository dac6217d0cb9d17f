// MPI-style collectives and point-to-point messages between ranks; groups are passed in, never
// global.
//
// All of them go through Issue, so that a decorator (fingerprint, mutation, poison) overrides one
// function.
//
// Shapes:   g is the group's size. all_reduce [...] -> [...]; reduce_scatter [g * n, ...] -> [n,
// ...]; all_gather
//           [n, ...] -> [g * n, ...] (first dimension, members in group order); broadcast [...];
//           all_to_all [g * n, ...] -> [g * n, ...]; all_to_all_v by split sizes along the first
//           dimension. Buffers given to Issue are contiguous.
//           send is a rendezvous: Send returns when the matching Recv has been posted. Messages
//           match by (source, destination, tag, group), in order of issue.
// Numerics: reductions add in group order, in the tensor's dtype, one addition per member (world.h:
// ReductionOrder). Errors:   InvalidArgument when the calling rank is not in the group or a shape
// does not divide. What the ranks of a group
//           disagree about is a Finding of the world's matcher, not an error.
// Source:   MPI 3.1 chapters 3 and 5; NCCL's operation set.
#ifndef PLUMBLINE_PARALLEL_COMM_COMMUNICATOR_H_
#define PLUMBLINE_PARALLEL_COMM_COMMUNICATOR_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/mesh.h"
#include "base/site.h"
#include "base/tensor.h"
#include "kernels/reduce.h"

namespace plumbline {

enum class CollectiveOp : uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kAllToAll,
  kBarrier,
  kSend,
  kRecv
};
std::string_view Name(CollectiveOp op);

// Everything that one rank says about one call.
struct CollectiveCall {
  CollectiveOp op = CollectiveOp::kBarrier;
  ReduceOp reduce_op = ReduceOp::kSum;
  Group group;  // a copy: cheap to swap by a decorator. kSend and kRecv: the group in which `peer`
                // counts
  int peer = -1;  // position in the group: root of a broadcast, destination, source
  int tag = 0;    // kSend, kRecv
  Tensor input;   // undefined for kRecv, kBarrier
  Tensor output;  // undefined for kSend, kBarrier; may share input's storage entirely (in place) or
                  // not at all
  std::vector<int64_t> input_splits;   // kAllToAll with uneven parts: rows for each member
  std::vector<int64_t> output_splits;  // rows from each member
  Site site;                           // the logical id: what this collective moves
  // The caller waits at once, so that nobody can look at its buffers in between: no copy, no
  // poison. The synchronous forms set it; a decorator that does not wait at once clears it.
  bool blocking = false;
};

// A call under way. Until Wait returns the payload is in flight: the output holds poison, the input
// must not change.
class Work {
 public:
  virtual ~Work() = default;
  virtual void Wait() = 0;
  virtual bool Done() const = 0;
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  // Starts a call. Every collective below is Issue with the fields filled in; the synchronous ones
  // also wait.
  virtual std::shared_ptr<Work> Issue(const CollectiveCall& call) = 0;
  virtual int global_rank() const = 0;

  // In place: `tensor` (contiguous) becomes the reduction.
  void AllReduce(Tensor& tensor, ReduceOp op, const Group& group, const Site& site);
  // Out of place; fresh results from `context`.
  Tensor ReduceScatter(const Context& context, const Tensor& input, ReduceOp op, const Group& group,
                       const Site& site);
  Tensor AllGather(const Context& context, const Tensor& input, const Group& group,
                   const Site& site);
  Tensor AllToAll(const Context& context, const Tensor& input, const Group& group,
                  const Site& site);
  // Rows of the result come as output_splits says, member by member.
  Tensor AllToAllV(const Context& context, const Tensor& input, std::vector<int64_t> input_splits,
                   std::vector<int64_t> output_splits, const Group& group, const Site& site);
  void Broadcast(Tensor& tensor, int root, const Group& group, const Site& site);
  void Barrier(const Group& group, const Site& site);
  void Send(const Tensor& tensor, int peer, int tag, const Group& group, const Site& site);
  void Recv(Tensor& tensor, int peer, int tag, const Group& group, const Site& site);

  // Asynchronous forms over buffers that the caller owns.
  std::shared_ptr<Work> AllReduceAsync(Tensor tensor, ReduceOp op, const Group& group,
                                       const Site& site);
  std::shared_ptr<Work> ReduceScatterAsync(Tensor input, Tensor output, ReduceOp op,
                                           const Group& group, const Site& site);
  std::shared_ptr<Work> AllGatherAsync(Tensor input, Tensor output, const Group& group,
                                       const Site& site);
  std::shared_ptr<Work> SendAsync(Tensor tensor, int peer, int tag, const Group& group,
                                  const Site& site);
  std::shared_ptr<Work> RecvAsync(Tensor tensor, int peer, int tag, const Group& group,
                                  const Site& site);
};

// Base of decorators: passes everything on.
class CommunicatorDecorator : public Communicator {
 public:
  explicit CommunicatorDecorator(Communicator& inner) : inner_(inner) {}
  std::shared_ptr<Work> Issue(const CollectiveCall& call) override { return inner_.Issue(call); }
  int global_rank() const override { return inner_.global_rank(); }

 protected:
  Communicator& inner() { return inner_; }

 private:
  Communicator& inner_;
};

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_COMM_COMMUNICATOR_H_
