#include "fingerprint/compare_calls.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"

namespace plumbline {
namespace {

int64_t ElementsWithout(const Shape& shape, size_t skip) {
  int64_t elements = 1;
  for (size_t axis = skip; axis < shape.size(); ++axis) elements *= shape[axis];
  return elements;
}

bool HasSplits(const CollectiveRecord& record) {
  return !record.input_splits.empty() || !record.output_splits.empty();
}

int64_t PositionOf(const CollectiveRecord& record) {
  const std::vector<int>& members = *record.members;
  return std::find(members.begin(), members.end(), record.global_rank) - members.begin();
}

// Rows that `record` sends to, or expects from, the member at `position`.
int64_t RowsFor(const CollectiveRecord& record, bool sends, int64_t position) {
  const std::vector<int64_t>& splits = sends ? record.input_splits : record.output_splits;
  if (!splits.empty()) return splits[position];
  const Shape& shape = sends ? record.input_shape : record.output_shape;
  return shape.empty() ? 0 : shape[0] / static_cast<int64_t>(record.members->size());
}

MatchState CompareSplits(const CollectiveRecord& a, const CollectiveRecord& b) {
  if (ElementsWithout(a.input_shape, 1) != ElementsWithout(b.input_shape, 1)) {
    return MatchState::kSize;
  }
  const int64_t of_a = PositionOf(a);
  const int64_t of_b = PositionOf(b);
  // Two members of one group sit at different positions; equal ones are of two groups that run the
  // same program.
  if (of_a == of_b) {
    const bool same = a.input_splits == b.input_splits && a.output_splits == b.output_splits;
    return same ? MatchState::kMatched : MatchState::kSplit;
  }
  const bool fits = RowsFor(a, true, of_b) == RowsFor(b, false, of_a) &&
                    RowsFor(b, true, of_a) == RowsFor(a, false, of_b);
  return fits ? MatchState::kMatched : MatchState::kSplit;
}

MatchState CompareSizes(const CollectiveRecord& a, const CollectiveRecord& b) {
  if (HasSplits(a) || HasSplits(b)) return CompareSplits(a, b);
  return ElementsWithout(a.input_shape, 0) == ElementsWithout(b.input_shape, 0)
             ? MatchState::kMatched
             : MatchState::kSize;
}

}  // namespace

std::string_view Name(MatchState state) {
  switch (state) {
    case MatchState::kMatched:
      return "matched";
    case MatchState::kType:
      return "type";
    case MatchState::kSize:
      return "size";
    case MatchState::kSplit:
      return "split";
    case MatchState::kDType:
      return "dtype";
    case MatchState::kReduceOp:
      return "redop";
    case MatchState::kRoot:
      return "root";
    case MatchState::kPeerTag:
      return "peer/tag";
    case MatchState::kMembership:
      return "membership";
    case MatchState::kOrder:
      return "order";
    case MatchState::kMissing:
      return "missing";
    case MatchState::kLogicalId:
      return "logical id";
    case MatchState::kValue:
      return "value";
    case MatchState::kDeadlock:
      return "deadlock";
  }
  throw Internal("match state {} is not in the table", static_cast<int>(state));
}

bool SameLogicalId(const CollectiveRecord& a, const CollectiveRecord& b, bool with_microbatch) {
  return a.site.step == b.site.step && a.site.phase == b.site.phase &&
         a.site.quantity == b.site.quantity &&
         (!with_microbatch || a.site.microbatch == b.site.microbatch) &&
         a.site.tensor == b.site.tensor;
}

bool SharesMicrobatch(const CollectiveRecord& record) {
  if (record.op == "send" || record.op == "recv") return true;
  const std::string& name = record.group_name;
  return name == "tp" || name == "cp" || name == "tp-cp" || name == "cp-tp";
}

MatchState CompareCalls(const CollectiveRecord& a, const CollectiveRecord& b) {
  if (a.op != b.op) return MatchState::kType;
  if (a.op != "barrier") {
    const MatchState size = CompareSizes(a, b);
    if (size != MatchState::kMatched) return size;
    if (a.dtype != b.dtype) return MatchState::kDType;
    if (a.reduce_op != b.reduce_op) return MatchState::kReduceOp;
    if (a.peer != b.peer) return MatchState::kRoot;
  }
  return SameLogicalId(a, b, SharesMicrobatch(a)) ? MatchState::kMatched : MatchState::kLogicalId;
}

MatchState CompareEnds(const CollectiveRecord& send, const CollectiveRecord& recv) {
  if (ElementsWithout(send.input_shape, 0) != ElementsWithout(recv.output_shape, 0)) {
    return MatchState::kSize;
  }
  if (send.dtype != recv.dtype) return MatchState::kDType;
  return SameLogicalId(send, recv, true) ? MatchState::kMatched : MatchState::kLogicalId;
}

}  // namespace plumbline
