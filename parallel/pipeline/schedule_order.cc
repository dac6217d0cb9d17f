#include "parallel/pipeline/schedule_order.h"

#include <algorithm>

namespace plumbline {
namespace {

using Order = std::vector<Operation>;

void Add(Order& order, OperationKind kind, int microbatch, int chunk = 0) {
  order.push_back({.kind = kind, .microbatch = microbatch, .chunk = chunk});
}

// `warm_up` forwards, then a forward and a backward in turn, then the backwards that are left.
// Naive is the case of no warm-up, GPipe that of all forwards.
Order WholeBackwardOrder(int microbatches, int warm_up) {
  Order order;
  warm_up = std::min(warm_up, microbatches);
  for (int i = 0; i < warm_up; ++i) Add(order, OperationKind::kForward, i);
  for (int i = 0; i < microbatches; ++i) {
    if (warm_up + i < microbatches) Add(order, OperationKind::kForward, warm_up + i);
    Add(order, OperationKind::kBackward, i);
  }
  return order;
}

// The weight part comes `lag` microbatches after the input part. A stage then holds the warm_up + 1
// microbatches that await their input part and the lag that await their weight part. The input part
// of the last microbatch leaves the last stage the earlier by lag weight parts, which that stage
// does while the others still wait for their last gradients.
Order SplitBackwardOrder(int microbatches, int warm_up, int lag) {
  Order order;
  warm_up = std::min(warm_up, microbatches);
  for (int i = 0; i < warm_up; ++i) Add(order, OperationKind::kForward, i);
  for (int i = 0; i < microbatches; ++i) {
    if (warm_up + i < microbatches) Add(order, OperationKind::kForward, warm_up + i);
    Add(order, OperationKind::kBackwardInput, i);
    if (i >= lag) Add(order, OperationKind::kBackwardWeight, i - lag);
  }
  for (int i = std::max(0, microbatches - lag); i < microbatches; ++i) {
    Add(order, OperationKind::kBackwardWeight, i);
  }
  return order;
}

struct Turn {
  int microbatch;
  int chunk;
};

// The order in which forwards take turns: group after group of g microbatches (the last may be
// smaller), in each group chunk after chunk. Backwards take the same turns with the chunks counted
// from the last.
std::vector<Turn> InterleavedTurns(const ScheduleConfig& config) {
  std::vector<Turn> turns;
  turns.reserve(static_cast<size_t>(config.microbatches) *
                static_cast<size_t>(config.virtual_chunks));
  const int g = config.group_size();
  for (int begin = 0; begin < config.microbatches; begin += g) {
    const int end = std::min(begin + g, config.microbatches);
    for (int chunk = 0; chunk < config.virtual_chunks; ++chunk) {
      for (int i = begin; i < end; ++i) turns.push_back({i, chunk});
    }
  }
  return turns;
}

Order InterleavedOrder(const ScheduleConfig& config, const std::vector<Turn>& turns, int stage) {
  const size_t warm_up = std::min(
      turns.size(), static_cast<size_t>(2 * (config.pp - stage - 1) +
                                        (config.virtual_chunks - 1) * config.group_size()));
  Order order;
  order.reserve(2 * turns.size());
  const auto forward = [&](size_t k) {
    Add(order, OperationKind::kForward, turns[k].microbatch, turns[k].chunk);
  };
  for (size_t k = 0; k < warm_up; ++k) forward(k);
  for (size_t k = 0; k < turns.size(); ++k) {
    if (warm_up + k < turns.size()) forward(warm_up + k);
    Add(order, OperationKind::kBackward, turns[k].microbatch,
        config.virtual_chunks - 1 - turns[k].chunk);
  }
  return order;
}

}  // namespace

std::vector<std::vector<Operation>> ComputeOrder(const ScheduleConfig& config) {
  const int m = config.microbatches;
  const std::vector<Turn> turns =
      config.kind == ScheduleKind::kInterleaved ? InterleavedTurns(config) : std::vector<Turn>();
  std::vector<Order> stages;
  for (int stage = 0; stage < config.pp; ++stage) {
    const int after = config.pp - stage - 1;  // stages behind this one
    switch (config.kind) {
      case ScheduleKind::kNaive:
        stages.push_back(WholeBackwardOrder(m, 0));
        break;
      case ScheduleKind::kGpipe:
        stages.push_back(WholeBackwardOrder(m, m));
        break;
      case ScheduleKind::kOneForwardOneBackward:
        stages.push_back(WholeBackwardOrder(m, after));
        break;
      case ScheduleKind::kInterleaved:
        stages.push_back(InterleavedOrder(config, turns, stage));
        break;
      case ScheduleKind::kZeroBubbleH1:
        stages.push_back(SplitBackwardOrder(m, after, stage));
        break;
      case ScheduleKind::kZeroBubbleH2:
        stages.push_back(SplitBackwardOrder(m, 2 * after, 2 * stage));
        break;
    }
  }
  return stages;
}

}  // namespace plumbline
