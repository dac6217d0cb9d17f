// What two ranks' calls at the same place of a group disagree about.
#ifndef PLUMBLINE_FINGERPRINT_COMPARE_CALLS_H_
#define PLUMBLINE_FINGERPRINT_COMPARE_CALLS_H_

#include <cstdint>
#include <string_view>

#include "fingerprint/record.h"

namespace plumbline {

// In order of precedence: the first that applies is reported.
enum class MatchState : uint8_t {
  kMatched,
  kType,        // the operations differ
  kSize,        // elements
  kSplit,       // what one sends is not what the other expects
  kDType,       // element types
  kReduceOp,    // sum for avg, ...
  kRoot,        // of a broadcast
  kPeerTag,     // a message whose ends name different peers or tags
  kMembership,  // the rank calls on another group than its peers, or one that it is not in
  kOrder,       // the same calls in another order
  kMissing,     // a rank never makes the call that its peers make
  kLogicalId,   // the calls fit, but they move different tensors
  kValue,       // outputs that must be equal differ
  kDeadlock
};
std::string_view Name(MatchState state);  // "type", "size", ..., "logical id", ...

// Whether both move the same logical tensor: the sites agree in step, phase, tensor and quantity,
// and `with_microbatch` in the microbatch. Layer and chunk are not asked for: the tensor's full
// name holds them.
bool SameLogicalId(const CollectiveRecord& a, const CollectiveRecord& b, bool with_microbatch);

// The members of a tensor or context parallel group work on one microbatch, as do the ends of a
// message; those of a group over a data-parallel axis do not.
bool SharesMicrobatch(const CollectiveRecord& record);

// Two calls with the same sequence number, by different ranks of one group or of two groups that
// run the same program. kMatched to kRoot, and kLogicalId.
MatchState CompareCalls(const CollectiveRecord& a, const CollectiveRecord& b);

// The two ends of a message that peer and tag have brought together. kMatched, kSize, kDType,
// kLogicalId.
MatchState CompareEnds(const CollectiveRecord& send, const CollectiveRecord& recv);

}  // namespace plumbline

#endif  // PLUMBLINE_FINGERPRINT_COMPARE_CALLS_H_
