#include "parallel/comm/pending_call.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "base/mesh.h"

namespace plumbline {
namespace {

int64_t RowsOf(const Tensor& tensor) { return tensor.dims() == 0 ? 1 : tensor.dim(0); }

bool Uses(const CollectiveCall& call, bool input) {
  if (call.op == CollectiveOp::kBarrier) return false;
  return call.op != (input ? CollectiveOp::kRecv : CollectiveOp::kSend);
}

void ValidateBuffer(const CollectiveCall& call, const Tensor& buffer, bool input) {
  const std::string_view side = input ? "input" : "output";
  if (!Uses(call, input)) return;
  if (!buffer.defined()) throw InvalidArgument("{}: the {} is undefined", Name(call.op), side);
  if (!buffer.contiguous()) {
    throw InvalidArgument("{}: the {} {}{} is not contiguous", Name(call.op), side,
                          Name(buffer.dtype()), ToString(buffer.shape()));
  }
}

[[noreturn]] void ThrowSizes(const CollectiveCall& call) {
  throw InvalidArgument("{} over {}: input {}{} and output {}{} don't fit together", Name(call.op),
                        ToString(call.group), Name(call.input.dtype()),
                        ToString(call.input.shape()), Name(call.output.dtype()),
                        ToString(call.output.shape()));
}

void ValidateSplits(const CollectiveCall& call, int position) {
  const size_t size = static_cast<size_t>(call.group.size());
  const auto check = [&](const std::vector<int64_t>& splits, const Tensor& buffer) {
    int64_t rows = 0;
    bool positive = true;
    for (int64_t split : splits) {
      rows += split;
      positive = positive && split >= 0;
    }
    if (splits.size() != size || !positive || rows != RowsOf(buffer)) {
      throw InvalidArgument("all_to_all over {}: the splits don't add up to the rows of {}",
                            ToString(call.group), ToString(buffer.shape()));
    }
  };
  check(call.input_splits, call.input);
  check(call.output_splits, call.output);
  if (call.input_splits[position] != call.output_splits[position]) {
    throw InvalidArgument("all_to_all over {}: position {} sends itself {} rows and expects {}",
                          ToString(call.group), position, call.input_splits[position],
                          call.output_splits[position]);
  }
}

void ValidateSizes(const CollectiveCall& call, int position) {
  const int64_t size = call.group.size();
  const int64_t in = call.input.elements();
  const int64_t out = call.output.elements();
  bool fits = call.input.dtype() == call.output.dtype();
  switch (call.op) {
    case CollectiveOp::kAllReduce:
    case CollectiveOp::kBroadcast:
      fits = fits && in == out;
      break;
    case CollectiveOp::kReduceScatter:
      fits = fits && in == out * size;
      break;
    case CollectiveOp::kAllGather:
      fits = fits && in * size == out;
      break;
    case CollectiveOp::kAllToAll:
      if (!call.input_splits.empty() || !call.output_splits.empty()) {
        ValidateSplits(call, position);
        const int64_t rows_in = RowsOf(call.input);
        const int64_t rows_out = RowsOf(call.output);
        // Rows of one length; an empty side has none.
        fits = fits && in * rows_out == out * rows_in;
      } else {
        fits = fits && in == out && RowsOf(call.input) % size == 0;
      }
      break;
    default:
      return;
  }
  if (!fits) ThrowSizes(call);
}

bool Reduces(CollectiveOp op) {
  return op == CollectiveOp::kAllReduce || op == CollectiveOp::kReduceScatter;
}

// A broadcast reads the root's input alone.
bool ReadsInput(const PendingCall& call) {
  return call.input.defined() &&
         !(call.op == CollectiveOp::kBroadcast && call.peer != call.position);
}

bool Overlap(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined() || !a.SharesStorage(b)) return false;
  return a.raw() < b.raw() + b.bytes() && b.raw() < a.raw() + a.bytes();
}

// Whether the data can be moved with this overlap in place, nobody looking: each part of the output
// is written after it has been read for the last time.
bool SafeInPlace(const PendingCall& call) {
  const std::byte* in = call.input.raw();
  const std::byte* out = call.output.raw();
  switch (call.op) {
    case CollectiveOp::kAllReduce:
    case CollectiveOp::kBroadcast:
      return in == out;
    case CollectiveOp::kReduceScatter:
      return out == in + call.output.bytes() * static_cast<size_t>(call.position);
    case CollectiveOp::kAllGather:
      return in == out + call.input.bytes() * static_cast<size_t>(call.position);
    default:
      return false;
  }
}

}  // namespace

bool GroupState::SameMembers(const std::vector<int>& others) const {
  const std::vector<int>& mine = *members;
  if (mine.size() != others.size()) return false;
  // Beyond this a full comparison at each call would cost more than the call; the hash has told.
  constexpr size_t kFullComparison = 64;
  if (mine.size() <= kFullComparison) return mine == others;
  const size_t middle = mine.size() / 2;
  return mine.front() == others.front() && mine.back() == others.back() &&
         mine[middle] == others[middle];
}

void ValidateCall(const CollectiveCall& call, int position) {
  ValidateBuffer(call, call.input, /*input=*/true);
  ValidateBuffer(call, call.output, /*input=*/false);
  ValidateSizes(call, position);
  const bool needs_peer = call.op == CollectiveOp::kBroadcast || call.op == CollectiveOp::kSend ||
                          call.op == CollectiveOp::kRecv;
  if (needs_peer && (call.peer < 0 || call.peer >= call.group.size())) {
    throw InvalidArgument("{} over {}: peer {} is no position; expected 0 to {}", Name(call.op),
                          ToString(call.group), call.peer, call.group.size() - 1);
  }
  if (Reduces(call.op) && call.reduce_op == ReduceOp::kAvg && call.input.dtype() == DType::kI64) {
    throw InvalidArgument("{} avg over {}: an average of integers is not defined", Name(call.op),
                          ToString(call.group));
  }
}

CollectiveRecord MakeRecord(const PendingCall& call) {
  CollectiveRecord record;
  record.global_rank = call.global_rank;
  record.group_name = call.group_name;
  record.members = call.group->members;
  record.group_hash = call.group->hash;
  record.sequence = call.sequence;
  record.op = Name(call.op);
  if (Reduces(call.op)) record.reduce_op = Name(call.reduce_op);
  record.peer = call.peer;
  record.tag = call.tag;
  if (call.input.defined()) {
    record.dtype = call.input.dtype();
    record.input_shape = call.input.shape();
  }
  if (call.output.defined()) {
    record.dtype = call.output.dtype();
    record.output_shape = call.output.shape();
  }
  record.input_splits = call.input_splits;
  record.output_splits = call.output_splits;
  record.site = call.site;
  record.before = call.before;
  record.issue_time = call.issue_time;
  return record;
}

void TakeOff(PendingCall& call, const Context& context, bool record_checksum, bool watch) {
  const bool overlap = Overlap(call.input, call.output);
  const bool copy = overlap && !(call.blocking && SafeInPlace(call));
  // A caller that waits can't change its buffer.
  call.watched = watch && !copy && !call.blocking && ReadsInput(call);
  // Of a payload beyond the cache a pass of its own would be a visible cost; the buffer of a caller
  // that waits is the same later on.
  constexpr size_t kOwnPass = size_t{256} << 10;
  call.before_due = record_checksum && !copy && call.blocking &&
                    call.op == CollectiveOp::kAllReduce && call.input.bytes() > kOwnPass;
  const bool wanted = record_checksum && ReadsInput(call) && !call.before_due;
  if (wanted || call.watched) call.before = ChecksumOf(call.input);
  if (copy) call.input = call.input.Clone(context, MemoryCategory::kCommunication);
  if (!call.blocking && call.output.defined()) call.output.FillPoison();
}

bool InputChanged(const PendingCall& call) {
  return call.watched && !(ChecksumOf(call.input) == call.before);
}

void Land(PendingCall& call) {
  if (call.delivery == Delivery::kStaged && call.output.bytes() > 0) {
    PL_CHECK(call.result.bytes() == call.output.bytes());
    std::memcpy(call.output.raw(), call.result.raw(), call.output.bytes());
  }
  call.delivery = Delivery::kInOutput;
  call.result = Tensor();
}

}  // namespace plumbline
