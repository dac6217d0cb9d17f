#include "parallel/pipeline/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "parallel/pipeline/schedule_needs.h"

namespace plumbline {
namespace {

class Simulator {
 public:
  Simulator(const Schedule& schedule, const Costs& costs, Transport transport)
      : schedule_(schedule),
        costs_(costs),
        transport_(transport),
        needs_(FindNeeds(schedule)),
        stages_(schedule.stages.size()),
        waits_(schedule.stages.size()) {}

  std::vector<std::vector<TimeSpan>> Run() {
    std::vector<int> runnable;
    for (int stage = schedule_.config.pp - 1; stage >= 0; --stage) runnable.push_back(stage);
    while (!runnable.empty()) {
      const int stage = runnable.back();
      runnable.pop_back();
      StageState& state = At(stage);
      Wait wait;
      const size_t done_before = state.spans.size();
      const int posted_before = state.posted;
      while (state.spans.size() < Operations(stage).size() && Advance(stage, wait)) {
      }
      const bool done = state.spans.size() == Operations(stage).size();
      waits_[static_cast<size_t>(stage)] = done ? Wait() : wait;
      if (!done && wait.on_stage >= 0 && wait.on_stage != stage) {
        At(wait.on_stage).waiting.push_back(stage);
      }
      // A stage that did nothing wakes nobody, or two that wait for each other would do so forever.
      if (state.spans.size() == done_before && state.posted == posted_before) continue;
      runnable.insert(runnable.end(), state.waiting.begin(), state.waiting.end());
      state.waiting.clear();
    }
    std::vector<std::vector<TimeSpan>> spans;
    for (StageState& state : stages_) spans.push_back(std::move(state.spans));
    return spans;
  }

  // From the first stage that is stuck along its waits, up to a repetition or an end.
  std::vector<Wait> Stuck() const {
    std::vector<Wait> path;
    std::vector<size_t> seen(waits_.size(), waits_.size());
    for (const Wait& first : waits_) {
      if (first.stage < 0) continue;
      int stage = first.stage;
      while (seen[static_cast<size_t>(stage)] == waits_.size()) {
        seen[static_cast<size_t>(stage)] = path.size();
        path.push_back(waits_[static_cast<size_t>(stage)]);
        if (path.back().on_stage < 0) return path;
        stage = path.back().on_stage;
      }
      path.erase(path.begin(),
                 path.begin() + static_cast<std::ptrdiff_t>(seen[static_cast<size_t>(stage)]));
      break;
    }
    return path;
  }

 private:
  struct StageState {
    std::vector<TimeSpan> spans;  // of what is done
    int64_t clock = 0;
    int posted = 0;  // messages before this index are issued, at post_time if not done yet
    int64_t post_time = 0;
    std::vector<int> waiting;  // stages to look at again when this one gets on
  };

  StageState& At(int stage) { return stages_[static_cast<size_t>(stage)]; }
  const std::vector<Operation>& Operations(int stage) const {
    return schedule_.stages[static_cast<size_t>(stage)];
  }
  const Needs& NeedsOf(int stage, int operation) const {
    return needs_[static_cast<size_t>(stage)][static_cast<size_t>(operation)];
  }

  // Does the stage's next operation, or batch; false, with whom it waits for, when it cannot.
  bool Advance(int stage, Wait& wait) {
    StageState& state = At(stage);
    const int next = static_cast<int>(state.spans.size());
    const Operation& operation = Operations(stage)[static_cast<size_t>(next)];
    if (!LocalDone(stage, next, next, wait)) return false;
    if (IsCompute(operation.kind)) return Compute(stage, next, operation.kind, wait);
    if (transport_ == Transport::kRendezvous) return Exchange(stage, next, wait);
    state.spans.push_back({state.clock, state.clock});
    return true;
  }

  // Whether what `operation` needs of its own stage comes before the index `begin`.
  bool LocalDone(int stage, int operation, int begin, Wait& wait) const {
    const int local = NeedsOf(stage, operation).local;
    if (local == kNone || (local != kMissing && local < begin)) return true;
    wait = {stage, operation, local == kMissing ? -1 : stage};
    return false;
  }

  bool Compute(int stage, int next, OperationKind kind, Wait& wait) {
    StageState& state = At(stage);
    const Needs& needs = NeedsOf(stage, next);
    int64_t start = state.clock;
    if (needs.recv != kNone) {
      if (needs.recv == kMissing || needs.recv >= next) {
        wait = {stage, next, needs.recv == kMissing ? -1 : stage};
        return false;
      }
      if (transport_ == Transport::kEager) {
        const Partner& send = NeedsOf(stage, needs.recv).partner;
        if (send.stage < 0) {
          wait = {stage, needs.recv, -1};
          return false;
        }
        const auto& theirs = At(send.stage).spans;
        if (static_cast<size_t>(send.operation) >= theirs.size()) {
          wait = {stage, needs.recv, send.stage};
          return false;
        }
        start =
            std::max(start, theirs[static_cast<size_t>(send.operation)].end + costs_.communication);
      }
    }
    state.clock = start + CostOf(kind);
    state.spans.push_back({start, state.clock});
    return true;
  }

  // A blocking batch.
  bool Exchange(int stage, int begin, Wait& wait) {
    StageState& state = At(stage);
    const auto& operations = Operations(stage);
    if (state.posted <= begin) {
      int end = begin + 1;
      const auto joins = [&](int i) {
        return operations[static_cast<size_t>(i - 1)].with_next &&
               static_cast<size_t>(i) < operations.size() &&
               !IsCompute(operations[static_cast<size_t>(i)].kind);
      };
      while (joins(end)) ++end;
      for (int i = begin + 1; i < end; ++i) {
        if (!LocalDone(stage, i, begin, wait)) return false;
      }
      state.posted = end;
      state.post_time = state.clock;
    }
    std::vector<TimeSpan> batch;
    for (int i = begin; i < state.posted; ++i) {
      const Partner& partner = NeedsOf(stage, i).partner;
      const StageState* theirs = partner.stage < 0 ? nullptr : &At(partner.stage);
      if (theirs == nullptr || partner.operation >= theirs->posted) {
        wait = {stage, i, theirs == nullptr ? -1 : partner.stage};
        return false;
      }
      const auto done = static_cast<size_t>(partner.operation);
      const int64_t their_post =
          done < theirs->spans.size() ? theirs->spans[done].start : theirs->post_time;
      batch.push_back(
          {state.post_time, std::max(state.post_time, their_post) + costs_.communication});
    }
    for (const TimeSpan& span : batch) state.clock = std::max(state.clock, span.end);
    state.spans.insert(state.spans.end(), batch.begin(), batch.end());
    return true;
  }

  int64_t CostOf(OperationKind kind) const {
    switch (kind) {
      case OperationKind::kForward:
        return costs_.forward;
      case OperationKind::kBackward:
        return costs_.backward();
      case OperationKind::kBackwardInput:
        return costs_.backward_input;
      case OperationKind::kBackwardWeight:
        return costs_.backward_weight;
      default:
        return 0;
    }
  }

  const Schedule& schedule_;
  const Costs& costs_;
  const Transport transport_;
  const std::vector<std::vector<Needs>> needs_;
  std::vector<StageState> stages_;
  std::vector<Wait> waits_;  // by stage; stage -1: done
};

void ValidateCosts(const ScheduleConfig& config, const Costs& costs) {
  int64_t sum = 0;
  for (const int64_t cost :
       {costs.forward, costs.backward_input, costs.backward_weight, costs.communication}) {
    if (cost < 0) throw InvalidArgument("a cost must be at least 0; it is {}", cost);
    if (__builtin_add_overflow(sum, cost, &sum)) sum = std::numeric_limits<int64_t>::max();
  }
  // Each virtual stage and microbatch adds each cost to a time once or, of messages, twice.
  const int64_t terms = int64_t{2} * config.virtual_stages() * config.microbatches;
  if (sum > std::numeric_limits<int64_t>::max() / terms) {
    throw InvalidArgument("costs that sum to {} are too large for {} microbatches on {} stages",
                          sum, config.microbatches, config.virtual_stages());
  }
}

int PeakLive(const std::vector<Operation>& operations) {
  int live = 0;
  int peak = 0;
  for (const Operation& operation : operations) {
    if (operation.kind == OperationKind::kForward) peak = std::max(peak, ++live);
    if (operation.kind == OperationKind::kBackward ||
        operation.kind == OperationKind::kBackwardWeight) {
      --live;
    }
  }
  return peak;
}

}  // namespace

Fraction MakeFraction(int64_t numerator, int64_t denominator) {
  PL_CHECK(denominator > 0);
  const int64_t divisor = std::gcd(numerator, denominator);
  return {numerator / divisor, denominator / divisor};
}

Simulation Simulate(const Schedule& schedule, const Costs& costs, Transport transport) {
  ValidateCosts(schedule.config, costs);
  PL_CHECK(schedule.stages.size() == static_cast<size_t>(schedule.config.pp));
  Simulator simulator(schedule, costs, transport);
  Simulation result;
  result.spans = simulator.Run();
  result.stuck = simulator.Stuck();
  size_t longest = 0;
  for (size_t stage = 0; stage < schedule.stages.size(); ++stage) {
    int64_t busy = 0;
    int64_t begin = std::numeric_limits<int64_t>::max();
    int64_t end = 0;
    for (size_t i = 0; i < result.spans[stage].size(); ++i) {
      const TimeSpan& span = result.spans[stage][i];
      result.makespan = std::max(result.makespan, span.end);
      if (!IsCompute(schedule.stages[stage][i].kind)) continue;
      busy += span.end - span.start;
      begin = std::min(begin, span.start);
      end = std::max(end, span.end);
    }
    result.busy.push_back(busy);
    result.stage_span.push_back(std::max<int64_t>(0, end - std::min(begin, end)));
    result.peak_live.push_back(PeakLive(schedule.stages[stage]));
    if (result.stage_span[stage] > result.stage_span[longest]) longest = stage;
  }
  const int64_t span = result.stage_span[longest];
  if (result.ran() && span > 0) result.bubble = MakeFraction(span - result.busy[longest], span);
  return result;
}

std::string DescribeStuck(const Schedule& schedule, const Simulation& simulation) {
  if (simulation.ran()) return "";
  const auto& stuck = simulation.stuck;
  const bool cycle = stuck.back().on_stage >= 0;
  std::string text = cycle ? "deadlock: " : "stuck: ";
  for (size_t i = 0; i < stuck.size(); ++i) {
    const Operation& operation =
        schedule
            .stages[static_cast<size_t>(stuck[i].stage)][static_cast<size_t>(stuck[i].operation)];
    text += fmt::format("{}stage {} waits in {}", i == 0 ? "" : "; ", stuck[i].stage,
                        ToString(operation));
    if (stuck[i].on_stage == stuck[i].stage) {
      text += " for what comes later in its own list";
    } else if (IsCompute(operation.kind) && stuck[i].on_stage < 0) {
      text += " for what is not in its list";
    } else if (stuck[i].on_stage < 0) {
      text += fmt::format(", which stage {} never {}", operation.peer_stage,
                          IsSend(operation.kind) ? "receives" : "sends");
    }
  }
  if (cycle && stuck.size() > 1) text += "; which closes the cycle";
  return text;
}

std::optional<Fraction> BubbleFormula(const ScheduleConfig& config, const Costs& costs) {
  const int64_t p = config.pp;
  const int64_t m = config.microbatches;
  const int64_t f = costs.forward;
  const int64_t b = costs.backward_input;
  const int64_t w = costs.backward_weight;
  if (costs.communication != 0 || f + b + w == 0) return std::nullopt;
  const auto zero_bubble = [&](int64_t idle_per_stage) {
    const int64_t idle = (p - 1) * std::max<int64_t>(0, idle_per_stage);
    return MakeFraction(idle, m * (f + b + w) + idle);
  };
  switch (config.kind) {
    case ScheduleKind::kNaive:
      return MakeFraction(p - 1, p);
    case ScheduleKind::kGpipe:
    case ScheduleKind::kOneForwardOneBackward:
      return MakeFraction(p - 1, m + p - 1);
    case ScheduleKind::kInterleaved:
      return MakeFraction(p - 1, config.virtual_chunks * m + p - 1);
    case ScheduleKind::kZeroBubbleH1:
      if (m < p || f < w) return std::nullopt;
      return zero_bubble(f + b - w);
    case ScheduleKind::kZeroBubbleH2:
      if (m < 2 * p - 1 || f < std::min(b, w)) return std::nullopt;
      return zero_bubble(f + b - 2 * w);
  }
  throw Internal("a schedule kind of value {}", static_cast<int>(config.kind));
}

}  // namespace plumbline
