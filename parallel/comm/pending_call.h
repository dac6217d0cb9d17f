// One rank's call from issue until its Wait has returned, and the collective that it is part of.
#ifndef PLUMBLINE_PARALLEL_COMM_PENDING_CALL_H_
#define PLUMBLINE_PARALLEL_COMM_PENDING_CALL_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/context.h"
#include "base/site.h"
#include "base/tensor.h"
#include "fingerprint/matcher.h"
#include "fingerprint/record.h"
#include "parallel/comm/communicator.h"

namespace plumbline {

class Engine;
struct Collective;

// A group that at least one rank has called on.
struct GroupState {
  std::string name;
  std::shared_ptr<const std::vector<int>> members;
  uint64_t hash = 0;
  std::deque<std::shared_ptr<Collective>> open;  // by sequence number, from first_open
  int64_t first_open = 0;

  bool SameMembers(const std::vector<int>& others) const;
};

// Where a call's output is.
enum class Delivery : uint8_t {
  kNone,      // peers are missing
  kInOutput,  // in the caller's buffer
  kStaged,    // in `result`: Wait moves it to the caller's buffer, which holds poison until then
};

struct PendingCall : public Work {
  // Work: both go to the engine, as long as there is one.
  void Wait() override;
  bool Done() const override;

  int64_t bytes() const { return static_cast<int64_t>(input.defined() ? input.bytes() : 0); }

  Engine* engine = nullptr;  // nullptr once the call is finished or the world has ended
  CollectiveOp op = CollectiveOp::kBarrier;
  ReduceOp reduce_op = ReduceOp::kSum;
  int global_rank = -1;
  int position = -1;  // in the group
  int peer = -1;
  int tag = 0;
  bool blocking = false;  // nobody looks at the buffers before Wait returns
  bool waiting = false;   // the rank is blocked in Wait
  bool watched = false;   // the input is the caller's buffer, and `before` tells whether it changed
  bool before_due = false;  // `before` is taken along when the payload is read
  bool unfit = false;       // its partners' calls don't fit: it hangs
  bool finished = false;
  Delivery delivery = Delivery::kNone;
  Tensor input;  // the caller's buffer, or the copy that was taken at issue
  Tensor output;
  Tensor result;
  std::vector<int64_t> input_splits;
  std::vector<int64_t> output_splits;
  Site site;
  std::string group_name;
  GroupState* group = nullptr;
  int64_t sequence = 0;
  int64_t issue_time = 0;
  int64_t record = -1;  // index in the matcher, -1: none
  Checksum before;
  std::shared_ptr<Collective> collective;  // nullptr for messages

  // Every call lives until it is finished, whether the caller keeps its Work or not.
  std::shared_ptr<PendingCall> self;
  PendingCall* previous = nullptr;
  PendingCall* next = nullptr;
};

// The calls of one group with one sequence number.
struct Collective {
  int64_t sequence = 0;
  int arrived = 0;
  bool moved = false;                               // the data have been moved
  std::vector<std::shared_ptr<PendingCall>> calls;  // by position; released when moved
  MatchSlot slot;
};

// Throws InvalidArgument when the call contradicts itself: shapes that don't divide, a buffer that
// is missing or not contiguous, splits that don't add up, a peer that is no position. `position`
// is the caller's.
void ValidateCall(const CollectiveCall& call, int position);

// What the call says, as plain data; the time is the issue's.
CollectiveRecord MakeRecord(const PendingCall& call);

// Starts the flight of the payload: checksum of the input when wanted, a copy when output and input
// overlap, poison over the output. `context` is the rank's.
void TakeOff(PendingCall& call, const Context& context, bool record_checksum, bool watch);
// Whether a watched input is no longer what it was at issue.
bool InputChanged(const PendingCall& call);
// Ends the flight: the output holds the result.
void Land(PendingCall& call);

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_COMM_PENDING_CALL_H_
