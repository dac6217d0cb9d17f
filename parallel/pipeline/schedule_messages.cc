#include "parallel/pipeline/schedule_messages.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/error.h"

namespace plumbline {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

// The computation `index` of `stage`.
struct Place {
  int stage = -1;
  int index = -1;
};

// Finds the computations of a pipeline by what they compute.
class Plan {
 public:
  Plan(const ScheduleConfig& config, const std::vector<std::vector<Operation>>& orders)
      : config_(config), orders_(orders) {
    const size_t count =
        static_cast<size_t>(config.virtual_stages()) * static_cast<size_t>(config.microbatches);
    forwards_.resize(count);
    backwards_.resize(count);
    for (int stage = 0; stage < config.pp; ++stage) {
      const auto& order = orders[static_cast<size_t>(stage)];
      for (int i = 0; i < static_cast<int>(order.size()); ++i) {
        const Operation& operation = order[static_cast<size_t>(i)];
        if (operation.kind == OperationKind::kBackwardWeight) continue;
        auto& places = operation.kind == OperationKind::kForward ? forwards_ : backwards_;
        places[Slot(config.VirtualIndex(stage, operation.chunk), operation.microbatch)] = {stage,
                                                                                           i};
      }
    }
  }

  // Whose result the computation needs from another virtual stage; stage -1 when it needs none.
  Place Producer(int stage, const Operation& operation) const {
    const int index = config_.VirtualIndex(stage, operation.chunk);
    if (operation.kind == OperationKind::kForward) {
      return index == 0 ? Place() : forwards_[Slot(index - 1, operation.microbatch)];
    }
    if (operation.kind == OperationKind::kBackwardWeight || index + 1 == config_.virtual_stages()) {
      return {};
    }
    return backwards_[Slot(index + 1, operation.microbatch)];
  }

  const Operation& At(Place place) const {
    return orders_[static_cast<size_t>(place.stage)][static_cast<size_t>(place.index)];
  }

 private:
  size_t Slot(int virtual_index, int microbatch) const {
    return static_cast<size_t>(virtual_index) * static_cast<size_t>(config_.microbatches) +
           static_cast<size_t>(microbatch);
  }

  const ScheduleConfig& config_;
  const std::vector<std::vector<Operation>>& orders_;
  std::vector<Place> forwards_;   // by Slot
  std::vector<Place> backwards_;  // by Slot: whole, or the input part
};

// When each computation starts if all take one unit of time and messages none; by stage.
std::vector<std::vector<int64_t>> UnitStarts(const Plan& plan,
                                             const std::vector<std::vector<Operation>>& orders) {
  const size_t stages = orders.size();
  std::vector<std::vector<int64_t>> starts(stages);
  // Which stages wait for each stage to get on.
  std::vector<std::vector<int>> waiting(stages);
  std::vector<int> runnable;
  for (size_t stage = 0; stage < stages; ++stage) runnable.push_back(static_cast<int>(stage));
  while (!runnable.empty()) {
    const int stage = runnable.back();
    runnable.pop_back();
    auto& mine = starts[static_cast<size_t>(stage)];
    const auto& order = orders[static_cast<size_t>(stage)];
    const size_t done_before = mine.size();
    while (mine.size() < order.size()) {
      int64_t start = mine.empty() ? 0 : mine.back() + 1;
      const Place producer = plan.Producer(stage, order[mine.size()]);
      if (producer.stage >= 0) {
        const auto& theirs = starts[static_cast<size_t>(producer.stage)];
        if (static_cast<size_t>(producer.index) >= theirs.size()) {
          waiting[static_cast<size_t>(producer.stage)].push_back(stage);
          break;
        }
        start = std::max(start, theirs[static_cast<size_t>(producer.index)] + 1);
      }
      mine.push_back(start);
    }
    if (mine.size() == done_before) continue;
    auto& woken = waiting[static_cast<size_t>(stage)];
    runnable.insert(runnable.end(), woken.begin(), woken.end());
    woken.clear();
  }
  for (size_t stage = 0; stage < stages; ++stage) {
    PL_CHECK(starts[stage].size() == orders[stage].size());
  }
  return starts;
}

// A message, the gap it goes into (gap i comes before computation i), and when it is produced.
struct GapMessage {
  Operation operation;
  int gap = 0;
  int64_t produced = 0;
};

// The receive of what computation `index` of `stage` needs, and the send of it, into their gaps.
void PlaceMessage(const Plan& plan, const std::vector<std::vector<int64_t>>& starts, int stage,
                  int index, std::vector<std::vector<GapMessage>>& messages) {
  const Operation& consumer = plan.At({stage, index});
  const Place from = plan.Producer(stage, consumer);
  if (from.stage < 0) return;
  const Operation& producer = plan.At(from);
  const bool forward = consumer.kind == OperationKind::kForward;
  const Operation send{.kind = forward ? OperationKind::kSendForward : OperationKind::kSendBackward,
                       .microbatch = producer.microbatch,
                       .chunk = producer.chunk,
                       .peer_stage = stage,
                       .peer_chunk = consumer.chunk};
  const Operation recv{.kind = forward ? OperationKind::kRecvForward : OperationKind::kRecvBackward,
                       .microbatch = consumer.microbatch,
                       .chunk = consumer.chunk,
                       .peer_stage = from.stage,
                       .peer_chunk = producer.chunk};
  const auto& sender = starts[static_cast<size_t>(from.stage)];
  const auto& receiver = starts[static_cast<size_t>(stage)];
  const size_t send_gap = static_cast<size_t>(from.index) + 1;
  const int64_t produced = sender[send_gap - 1] + 1;
  const int64_t must_leave = send_gap < sender.size() ? sender[send_gap] : kNever;
  size_t recv_gap = static_cast<size_t>(index);
  while (recv_gap > 0 && receiver[recv_gap - 1] + 1 > must_leave) --recv_gap;
  // The gap after this one begins past must_leave, a unit after this one ends: they overlap.
  PL_CHECK(receiver[recv_gap] >= produced);
  messages[static_cast<size_t>(from.stage)].push_back({send, from.index + 1, produced});
  messages[static_cast<size_t>(stage)].push_back({recv, static_cast<int>(recv_gap), produced});
}

// Sorts by gap. A gap has one send at most, of the computation before it; it comes first. Receives
// stand in the order in which their senders send.
std::vector<GapMessage> SortedByGap(const std::vector<GapMessage>& messages, size_t gaps) {
  std::vector<size_t> end(gaps + 1);  // of gap i, at i; while filling, how far it is filled
  for (const GapMessage& message : messages) ++end[static_cast<size_t>(message.gap) + 1];
  for (size_t gap = 1; gap <= gaps; ++gap) end[gap] += end[gap - 1];
  std::vector<GapMessage> sorted(messages.size());
  for (const GapMessage& message : messages) {
    sorted[end[static_cast<size_t>(message.gap)]++] = message;
  }
  size_t begin = 0;
  for (size_t gap = 0; gap < gaps; ++gap) {
    std::stable_sort(sorted.begin() + static_cast<std::ptrdiff_t>(begin),
                     sorted.begin() + static_cast<std::ptrdiff_t>(end[gap]),
                     [](const GapMessage& a, const GapMessage& b) {
                       const bool a_receives = IsRecv(a.operation.kind);
                       const bool b_receives = IsRecv(b.operation.kind);
                       return a_receives != b_receives ? b_receives : a.produced < b.produced;
                     });
    begin = end[gap];
  }
  return sorted;
}

// A stage's computations with its messages before them, and the last messages at the end.
std::vector<Operation> Merged(const std::vector<Operation>& order,
                              const std::vector<GapMessage>& messages) {
  std::vector<Operation> operations;
  operations.reserve(order.size() + messages.size());
  const std::vector<GapMessage> sorted = SortedByGap(messages, order.size() + 1);
  size_t next = 0;
  for (size_t gap = 0; gap <= order.size(); ++gap) {
    for (; next < sorted.size() && sorted[next].gap == static_cast<int>(gap); ++next) {
      operations.push_back(sorted[next].operation);
      operations.back().with_next =
          next + 1 < sorted.size() && sorted[next + 1].gap == static_cast<int>(gap);
    }
    if (gap < order.size()) operations.push_back(order[gap]);
  }
  return operations;
}

}  // namespace

std::vector<std::vector<Operation>> WithMessages(
    const ScheduleConfig& config, const std::vector<std::vector<Operation>>& orders) {
  const Plan plan(config, orders);
  const auto starts = UnitStarts(plan, orders);
  std::vector<std::vector<GapMessage>> messages(orders.size());
  for (size_t stage = 0; stage < orders.size(); ++stage) {
    messages[stage].reserve(2 * orders[stage].size());
  }
  for (int stage = 0; stage < config.pp; ++stage) {
    const int count = static_cast<int>(orders[static_cast<size_t>(stage)].size());
    for (int index = 0; index < count; ++index) PlaceMessage(plan, starts, stage, index, messages);
  }
  std::vector<std::vector<Operation>> stages;
  stages.reserve(orders.size());
  for (size_t stage = 0; stage < orders.size(); ++stage) {
    stages.push_back(Merged(orders[stage], messages[stage]));
  }
  return stages;
}

}  // namespace plumbline
