#include "parallel/comm/communicator.h"

#include <utility>

#include "base/error.h"

namespace plumbline {
namespace {

CollectiveCall MakeCall(CollectiveOp op, const Group& group, const Site& site) {
  CollectiveCall call;
  call.op = op;
  call.group = group;
  call.site = site;
  return call;
}

void IssueAndWait(Communicator& comm, CollectiveCall& call) {
  call.blocking = true;
  const std::shared_ptr<Work> work = comm.Issue(call);
  // A blocked rank would hold on to its copy of the members, which adds up over a large world.
  call.group.members = std::vector<int>();
  work->Wait();
}

// The shape of `input` with another first dimension; a scalar counts as one row.
Tensor EmptyRows(const Context& context, const Tensor& input, int64_t rows) {
  Shape shape = input.shape();
  if (shape.empty()) shape.push_back(1);
  shape[0] = rows;
  return Tensor::Empty(context, input.dtype(), std::move(shape), MemoryCategory::kActivation);
}

int64_t RowsOf(const Tensor& input) { return input.dims() == 0 ? 1 : input.dim(0); }

}  // namespace

std::string_view Name(CollectiveOp op) {
  switch (op) {
    case CollectiveOp::kAllReduce:
      return "all_reduce";
    case CollectiveOp::kReduceScatter:
      return "reduce_scatter";
    case CollectiveOp::kAllGather:
      return "all_gather";
    case CollectiveOp::kBroadcast:
      return "broadcast";
    case CollectiveOp::kAllToAll:
      return "all_to_all";
    case CollectiveOp::kBarrier:
      return "barrier";
    case CollectiveOp::kSend:
      return "send";
    case CollectiveOp::kRecv:
      return "recv";
  }
  throw Internal("collective op {} is not in the table", static_cast<int>(op));
}

void Communicator::AllReduce(Tensor& tensor, ReduceOp op, const Group& group, const Site& site) {
  CollectiveCall call = MakeCall(CollectiveOp::kAllReduce, group, site);
  call.reduce_op = op;
  call.input = tensor;
  call.output = tensor;
  IssueAndWait(*this, call);
}

Tensor Communicator::ReduceScatter(const Context& context, const Tensor& input, ReduceOp op,
                                   const Group& group, const Site& site) {
  const int64_t rows = RowsOf(input);
  if (group.size() == 0 || rows % group.size() != 0) {
    throw InvalidArgument("reduce_scatter of {} over {}: the first dimension does not divide by {}",
                          ToString(input.shape()), ToString(group), group.size());
  }
  CollectiveCall call = MakeCall(CollectiveOp::kReduceScatter, group, site);
  call.reduce_op = op;
  call.input = input.Contiguous(context);
  call.output = EmptyRows(context, input, rows / group.size());
  IssueAndWait(*this, call);
  return call.output;
}

Tensor Communicator::AllGather(const Context& context, const Tensor& input, const Group& group,
                               const Site& site) {
  CollectiveCall call = MakeCall(CollectiveOp::kAllGather, group, site);
  call.input = input.Contiguous(context);
  call.output = EmptyRows(context, input, RowsOf(input) * group.size());
  IssueAndWait(*this, call);
  return call.output;
}

Tensor Communicator::AllToAll(const Context& context, const Tensor& input, const Group& group,
                              const Site& site) {
  CollectiveCall call = MakeCall(CollectiveOp::kAllToAll, group, site);
  call.input = input.Contiguous(context);
  call.output = Tensor::Empty(context, input.dtype(), input.shape());
  IssueAndWait(*this, call);
  return call.output;
}

Tensor Communicator::AllToAllV(const Context& context, const Tensor& input,
                               std::vector<int64_t> input_splits,
                               std::vector<int64_t> output_splits, const Group& group,
                               const Site& site) {
  int64_t rows = 0;
  for (int64_t split : output_splits) rows += split;
  CollectiveCall call = MakeCall(CollectiveOp::kAllToAll, group, site);
  call.input = input.Contiguous(context);
  call.output = EmptyRows(context, input, rows);
  call.input_splits = std::move(input_splits);
  call.output_splits = std::move(output_splits);
  IssueAndWait(*this, call);
  return call.output;
}

void Communicator::Broadcast(Tensor& tensor, int root, const Group& group, const Site& site) {
  CollectiveCall call = MakeCall(CollectiveOp::kBroadcast, group, site);
  call.peer = root;
  call.input = tensor;
  call.output = tensor;
  IssueAndWait(*this, call);
}

void Communicator::Barrier(const Group& group, const Site& site) {
  CollectiveCall call = MakeCall(CollectiveOp::kBarrier, group, site);
  IssueAndWait(*this, call);
}

void Communicator::Send(const Tensor& tensor, int peer, int tag, const Group& group,
                        const Site& site) {
  CollectiveCall call = MakeCall(CollectiveOp::kSend, group, site);
  call.peer = peer;
  call.tag = tag;
  call.input = tensor.Contiguous(Context{});
  IssueAndWait(*this, call);
}

void Communicator::Recv(Tensor& tensor, int peer, int tag, const Group& group, const Site& site) {
  CollectiveCall call = MakeCall(CollectiveOp::kRecv, group, site);
  call.peer = peer;
  call.tag = tag;
  call.output = tensor;
  IssueAndWait(*this, call);
}

std::shared_ptr<Work> Communicator::AllReduceAsync(Tensor tensor, ReduceOp op, const Group& group,
                                                   const Site& site) {
  CollectiveCall call = MakeCall(CollectiveOp::kAllReduce, group, site);
  call.reduce_op = op;
  call.input = tensor;
  call.output = std::move(tensor);
  return Issue(call);
}

std::shared_ptr<Work> Communicator::ReduceScatterAsync(Tensor input, Tensor output, ReduceOp op,
                                                       const Group& group, const Site& site) {
  CollectiveCall call = MakeCall(CollectiveOp::kReduceScatter, group, site);
  call.reduce_op = op;
  call.input = std::move(input);
  call.output = std::move(output);
  return Issue(call);
}

std::shared_ptr<Work> Communicator::AllGatherAsync(Tensor input, Tensor output, const Group& group,
                                                   const Site& site) {
  CollectiveCall call = MakeCall(CollectiveOp::kAllGather, group, site);
  call.input = std::move(input);
  call.output = std::move(output);
  return Issue(call);
}

std::shared_ptr<Work> Communicator::SendAsync(Tensor tensor, int peer, int tag, const Group& group,
                                              const Site& site) {
  CollectiveCall call = MakeCall(CollectiveOp::kSend, group, site);
  call.peer = peer;
  call.tag = tag;
  call.input = std::move(tensor);
  return Issue(call);
}

std::shared_ptr<Work> Communicator::RecvAsync(Tensor tensor, int peer, int tag, const Group& group,
                                              const Site& site) {
  CollectiveCall call = MakeCall(CollectiveOp::kRecv, group, site);
  call.peer = peer;
  call.tag = tag;
  call.output = std::move(tensor);
  return Issue(call);
}

}  // namespace plumbline
