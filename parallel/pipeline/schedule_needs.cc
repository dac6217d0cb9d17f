#include "parallel/pipeline/schedule_needs.h"

#include <algorithm>

#include "base/error.h"

namespace plumbline {
namespace {

// Pairs sends with receives. A lawful schedule sends each tag once; what breaks that law goes into
// a list of its own.
class SendTable {
 public:
  explicit SendTable(const ScheduleConfig& config)
      : config_(config),
        by_tag_(size_t{2} * static_cast<size_t>(config.virtual_stages()) *
                static_cast<size_t>(config.microbatches)) {}

  void Add(int stage, int index, const Operation& send) {
    const int tag = Tag(stage, send);
    Entry& entry = by_tag_[static_cast<size_t>(tag)];
    if (entry.send.stage < 0) {
      entry = {{stage, index}, tag, send.peer_stage};
    } else {
      others_.push_back({{stage, index}, tag, send.peer_stage});
    }
  }

  // Removes the send that `recv` receives, and says which it is.
  Partner Take(int stage, const Operation& recv) {
    const int tag = Tag(stage, recv);
    const auto matches = [&](const Entry& entry) {
      return entry.tag == tag && entry.to == stage && entry.send.stage == recv.peer_stage;
    };
    Entry& entry = by_tag_[static_cast<size_t>(tag)];
    if (matches(entry)) {
      entry.tag = kMissing;
      return entry.send;
    }
    const auto other = std::find_if(others_.begin(), others_.end(), matches);
    if (other == others_.end()) return {};
    other->tag = kMissing;
    return other->send;
  }

 private:
  struct Entry {
    Partner send;
    int tag = kMissing;  // kMissing also once taken
    int to = kMissing;
  };

  int Tag(int stage, const Operation& message) const {
    PL_CHECK(message.peer_stage >= 0);
    PL_CHECK(message.peer_stage < config_.pp);
    PL_CHECK(message.peer_chunk >= 0);
    PL_CHECK(message.peer_chunk < config_.virtual_chunks);
    return MessageTag(config_, stage, message);
  }

  const ScheduleConfig& config_;
  std::vector<Entry> by_tag_;
  std::vector<Entry> others_;
};

// The kinds of operation of one (microbatch, chunk) of a stage that others look up.
struct Slots {
  int forward = kMissing;
  int backward = kMissing;  // whole, or the input part
  int recv_forward = kMissing;
  int recv_backward = kMissing;
};

class StageIndex {
 public:
  StageIndex(const ScheduleConfig& config, const std::vector<Operation>& operations)
      : config_(config),
        slots_(static_cast<size_t>(config.virtual_chunks) *
               static_cast<size_t>(config.microbatches)) {
    for (int i = 0; i < static_cast<int>(operations.size()); ++i) {
      const Operation& operation = operations[static_cast<size_t>(i)];
      Slots& slots = At(operation);
      const auto first = [i](int& slot) {
        if (slot == kMissing) slot = i;
      };
      switch (operation.kind) {
        case OperationKind::kForward:
          first(slots.forward);
          break;
        case OperationKind::kBackward:
        case OperationKind::kBackwardInput:
          first(slots.backward);
          break;
        case OperationKind::kRecvForward:
          first(slots.recv_forward);
          break;
        case OperationKind::kRecvBackward:
          first(slots.recv_backward);
          break;
        default:
          break;
      }
    }
  }

  Needs Of(int stage, const Operation& operation) {
    const int virtual_index = config_.VirtualIndex(stage, operation.chunk);
    const Slots& slots = At(operation);
    Needs needs;
    switch (operation.kind) {
      case OperationKind::kForward:
        if (virtual_index > 0) needs.recv = slots.recv_forward;
        break;
      case OperationKind::kBackward:
      case OperationKind::kBackwardInput:
        needs.local = slots.forward;
        if (virtual_index + 1 < config_.virtual_stages()) needs.recv = slots.recv_backward;
        break;
      case OperationKind::kBackwardWeight:
      case OperationKind::kSendBackward:
        needs.local = slots.backward;
        break;
      case OperationKind::kSendForward:
        needs.local = slots.forward;
        break;
      default:
        break;
    }
    return needs;
  }

 private:
  Slots& At(const Operation& operation) {
    PL_CHECK(operation.chunk >= 0);
    PL_CHECK(operation.chunk < config_.virtual_chunks);
    PL_CHECK(operation.microbatch >= 0);
    PL_CHECK(operation.microbatch < config_.microbatches);
    return slots_[static_cast<size_t>(operation.chunk) * static_cast<size_t>(config_.microbatches) +
                  static_cast<size_t>(operation.microbatch)];
  }

  const ScheduleConfig& config_;
  std::vector<Slots> slots_;
};

}  // namespace

std::vector<std::vector<Needs>> FindNeeds(const Schedule& schedule) {
  const ScheduleConfig& config = schedule.config;
  std::vector<std::vector<Needs>> needs(schedule.stages.size());
  SendTable sends(config);
  for (int stage = 0; stage < config.pp; ++stage) {
    const auto& operations = schedule.stages[static_cast<size_t>(stage)];
    StageIndex index(config, operations);
    auto& mine = needs[static_cast<size_t>(stage)];
    mine.reserve(operations.size());
    for (int i = 0; i < static_cast<int>(operations.size()); ++i) {
      const Operation& operation = operations[static_cast<size_t>(i)];
      mine.push_back(index.Of(stage, operation));
      if (IsSend(operation.kind)) sends.Add(stage, i, operation);
    }
  }
  for (int stage = 0; stage < config.pp; ++stage) {
    const auto& operations = schedule.stages[static_cast<size_t>(stage)];
    for (int i = 0; i < static_cast<int>(operations.size()); ++i) {
      const Operation& operation = operations[static_cast<size_t>(i)];
      if (!IsRecv(operation.kind)) continue;
      const Partner send = sends.Take(stage, operation);
      if (send.stage < 0) continue;
      needs[static_cast<size_t>(stage)][static_cast<size_t>(i)].partner = send;
      needs[static_cast<size_t>(send.stage)][static_cast<size_t>(send.operation)].partner = {stage,
                                                                                             i};
    }
  }
  return needs;
}

}  // namespace plumbline
