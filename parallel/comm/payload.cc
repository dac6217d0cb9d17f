#include "parallel/comm/payload.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "kernels/reduce.h"

namespace plumbline {
namespace {

// Of a source per step, so that the reduced part is still in the second-level cache when it is
// copied to the members.
constexpr int64_t kChunkBytes = 16384;

void CopyBytes(std::byte* to, const std::byte* from, int64_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, static_cast<size_t>(bytes));
}

// Bytes that a call sends to, or expects from, the member at `position` of an all_to_all.
int64_t SplitBytes(const PendingCall& call, bool sends, size_t position, size_t size) {
  const Tensor& buffer = sends ? call.input : call.output;
  const std::vector<int64_t>& splits = sends ? call.input_splits : call.output_splits;
  const int64_t bytes = static_cast<int64_t>(buffer.bytes());
  if (splits.empty()) return bytes / static_cast<int64_t>(size);
  const int64_t rows = buffer.dims() == 0 ? 1 : buffer.dim(0);
  return rows == 0 ? 0 : bytes / rows * splits[position];
}

int64_t SplitOffset(const PendingCall& call, bool sends, size_t position, size_t size) {
  int64_t offset = 0;
  for (size_t p = 0; p < position; ++p) offset += SplitBytes(call, sends, p, size);
  return offset;
}

// A tensor that receives the result of call `like`, for later.
Tensor Stage(PendingCall& like, const Context& context) {
  return Tensor::Empty(context, like.output.dtype(), like.output.shape(),
                       MemoryCategory::kCommunication);
}

// The same bytes read as another dtype: only calls that disagree need it.
Tensor BytesAs(const Tensor& source, const Tensor& like, const Context& context) {
  Tensor result = Tensor::Empty(context, like.dtype(), like.shape(), MemoryCategory::kOther);
  PL_CHECK(result.bytes() == source.bytes());
  CopyBytes(result.raw(), source.raw(), static_cast<int64_t>(source.bytes()));
  return result;
}

bool SameArithmetic(Calls calls) {
  return std::all_of(calls.begin() + 1, calls.end(), [&](const auto& call) {
    return call->input.dtype() == calls[0]->input.dtype() && call->reduce_op == calls[0]->reduce_op;
  });
}

// Each call's own arithmetic over everybody's bytes. Everything is staged, because an output may be
// another's input.
void ReduceMixed(Calls calls, const Context& context) {
  for (const auto& call : calls) {
    if (call->before_due) call->before = ChecksumOf(call->input);
  }
  for (const auto& call : calls) {
    std::vector<Tensor> inputs;
    for (const auto& peer : calls) {
      const Tensor whole = BytesAs(peer->input, call->input, context).View({-1});
      const int64_t n = call->output.elements();
      const int64_t begin = call->op == CollectiveOp::kAllReduce ? 0 : n * call->position;
      inputs.push_back(whole.Slice(0, begin, begin + n));
    }
    std::vector<const Tensor*> sources;
    for (const Tensor& input : inputs) sources.push_back(&input);
    call->result = Stage(*call, context);
    Reduce(call->reduce_op, sources, call->result);
    call->delivery = Delivery::kStaged;
  }
}

// targets[0] = reduction over the sources, chunk by chunk, copied to the other targets at once.
// `checksums`: of the sources, taken on the way; nullptr for none.
void ReduceToAll(ReduceOp op, const std::vector<const Tensor*>& sources,
                 const std::vector<Tensor*>& targets,
                 const std::vector<ChecksumStream*>& checksums) {
  const int64_t size = static_cast<int64_t>(SizeOf(sources[0]->dtype()));
  const int64_t elements = sources[0]->elements();
  const int64_t chunk = kChunkBytes / size;
  if (elements <= chunk) {
    Reduce(op, sources, *targets[0]);
    for (size_t t = 1; t < targets.size(); ++t) {
      CopyBytes(targets[t]->raw(), targets[0]->raw(), elements * size);
    }
    return;
  }
  std::vector<Tensor> flat;
  for (const Tensor* source : sources) flat.push_back(source->View({-1}));
  const Tensor flat_target = targets[0]->View({-1});
  std::vector<Tensor> parts(flat.size());
  std::vector<const Tensor*> part_pointers;
  for (const Tensor& part : parts) part_pointers.push_back(&part);
  for (int64_t begin = 0; begin < elements; begin += chunk) {
    const int64_t end = std::min(elements, begin + chunk);
    for (size_t s = 0; s < flat.size(); ++s) {
      parts[s] = flat[s].Slice(0, begin, end);
      if (checksums[s] != nullptr) checksums[s]->Update(parts[s].raw(), parts[s].bytes());
    }
    Tensor target = flat_target.Slice(0, begin, end);
    Reduce(op, part_pointers, target);
    for (size_t t = 1; t < targets.size(); ++t) {
      CopyBytes(targets[t]->raw() + begin * size, target.raw(), (end - begin) * size);
    }
  }
}

void AllReduce(Calls calls, const Context& context) {
  std::vector<const Tensor*> sources;
  std::vector<Tensor*> targets;
  std::vector<ChecksumStream> streams;
  std::vector<ChecksumStream*> due;
  streams.reserve(calls.size());  // they stay where they are
  Tensor staged;
  for (const auto& call : calls) {
    sources.push_back(&call->input);
    if (call->blocking) targets.push_back(&call->output);
    due.push_back(call->before_due ? &streams.emplace_back() : nullptr);
  }
  if (targets.size() < calls.size()) {
    staged = Stage(*calls[0], context);
    targets.push_back(&staged);
  }
  ReduceToAll(calls[0]->reduce_op, sources, targets, due);
  for (const auto& call : calls) {
    if (call->before_due) call->before = due[static_cast<size_t>(call->position)]->Digest();
    call->delivery = call->blocking ? Delivery::kInOutput : Delivery::kStaged;
    if (!call->blocking) call->result = staged;
  }
}

void ReduceScatter(Calls calls, const Context& context) {
  std::vector<Tensor> flat;
  for (const auto& call : calls) flat.push_back(call->input.View({-1}));
  std::vector<Tensor> parts(flat.size());
  std::vector<const Tensor*> sources;
  for (const Tensor& part : parts) sources.push_back(&part);
  for (const auto& call : calls) {
    const int64_t n = call->output.elements();
    for (size_t s = 0; s < flat.size(); ++s) {
      parts[s] = flat[s].Slice(0, n * call->position, n * (call->position + 1));
    }
    if (!call->blocking) call->result = Stage(*call, context);
    Reduce(call->reduce_op, sources, call->blocking ? call->output : call->result);
    call->delivery = call->blocking ? Delivery::kInOutput : Delivery::kStaged;
  }
}

// Every member's output is the concatenation of all inputs; one staged copy serves all that come
// later.
void AllGather(Calls calls, const Context& context) {
  const int64_t bytes = calls[0]->bytes();
  std::vector<std::byte*> targets;
  Tensor staged;
  for (const auto& call : calls) {
    if (call->blocking) {
      targets.push_back(call->output.raw());
    } else if (!staged.defined()) {
      staged = Stage(*call, context);
      targets.push_back(staged.raw());
    }
  }
  for (size_t source = 0; source < calls.size(); ++source) {
    const std::byte* from = calls[source]->input.raw();
    const int64_t base = bytes * static_cast<int64_t>(source);
    for (int64_t begin = 0; begin < bytes; begin += kChunkBytes) {
      const int64_t n = std::min(kChunkBytes, bytes - begin);
      for (std::byte* target : targets) CopyBytes(target + base + begin, from + begin, n);
    }
  }
  for (const auto& call : calls) {
    call->delivery = call->blocking ? Delivery::kInOutput : Delivery::kStaged;
    if (!call->blocking) call->result = staged;
  }
}

void Broadcast(Calls calls, const Context& context) {
  const bool one_root = std::all_of(calls.begin(), calls.end(),
                                    [&](const auto& call) { return call->peer == calls[0]->peer; });
  std::vector<Tensor> staged(calls.size());  // by root
  for (const auto& call : calls) {
    const Tensor& source = calls[static_cast<size_t>(call->peer)]->input;
    // With several roots an output may be another's source.
    if (call->blocking && one_root) {
      CopyBytes(call->output.raw(), source.raw(), static_cast<int64_t>(source.bytes()));
      call->delivery = Delivery::kInOutput;
      continue;
    }
    Tensor& copy = staged[static_cast<size_t>(call->peer)];
    if (!copy.defined()) copy = source.Clone(context, MemoryCategory::kCommunication);
    call->result = copy;
    call->delivery = Delivery::kStaged;
  }
}

void AllToAll(Calls calls, const Context& context) {
  const size_t size = calls.size();
  for (const auto& call : calls) {
    const size_t me = static_cast<size_t>(call->position);
    if (!call->blocking) call->result = Stage(*call, context);
    std::byte* to = call->blocking ? call->output.raw() : call->result.raw();
    for (size_t p = 0; p < size; ++p) {
      const PendingCall& peer = *calls[p];
      const int64_t bytes = SplitBytes(*call, /*sends=*/false, p, size);
      CopyBytes(to, peer.input.raw() + SplitOffset(peer, /*sends=*/true, me, size), bytes);
      to += bytes;
    }
    call->delivery = call->blocking ? Delivery::kInOutput : Delivery::kStaged;
  }
}

}  // namespace

bool FitTogether(Calls calls) {
  const PendingCall& first = *calls[0];
  for (const auto& call : calls) {
    if (call->op != first.op) return false;
    if (call->op != CollectiveOp::kAllToAll && call->bytes() != first.bytes()) return false;
  }
  if (first.op != CollectiveOp::kAllToAll) return true;
  const size_t size = calls.size();
  for (size_t a = 0; a < size; ++a) {
    for (size_t b = 0; b < size; ++b) {
      if (SplitBytes(*calls[a], true, b, size) != SplitBytes(*calls[b], false, a, size)) {
        return false;
      }
    }
  }
  return true;
}

bool FitTogether(const PendingCall& send, const PendingCall& recv) {
  return send.input.bytes() == recv.output.bytes();
}

void MovePayloads(Calls calls, const Context& context) {
  switch (calls[0]->op) {
    case CollectiveOp::kAllReduce:
      return SameArithmetic(calls) ? AllReduce(calls, context) : ReduceMixed(calls, context);
    case CollectiveOp::kReduceScatter:
      return SameArithmetic(calls) ? ReduceScatter(calls, context) : ReduceMixed(calls, context);
    case CollectiveOp::kAllGather:
      return AllGather(calls, context);
    case CollectiveOp::kBroadcast:
      return Broadcast(calls, context);
    case CollectiveOp::kAllToAll:
      return AllToAll(calls, context);
    case CollectiveOp::kBarrier:
      for (const auto& call : calls) call->delivery = Delivery::kInOutput;
      return;
    default:
      throw Internal("{} is no collective", Name(calls[0]->op));
  }
}

void MoveMessage(PendingCall& send, PendingCall& recv, const Context& context) {
  const int64_t bytes = static_cast<int64_t>(send.input.bytes());
  send.delivery = Delivery::kInOutput;
  if (recv.blocking) {
    CopyBytes(recv.output.raw(), send.input.raw(), bytes);
    recv.delivery = Delivery::kInOutput;
    return;
  }
  recv.result = Stage(recv, context);
  CopyBytes(recv.result.raw(), send.input.raw(), bytes);
  recv.delivery = Delivery::kStaged;
}

}  // namespace plumbline
