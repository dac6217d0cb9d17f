#include "parallel/pipeline/schedule_laws.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "parallel/pipeline/simulate.h"

namespace plumbline {
namespace {

// An operation of a stage, whoever its peer is: kind, microbatch, chunk.
using What = std::tuple<OperationKind, int, int>;

// A message as both ends know it.
struct Message {
  bool gradient;
  int microbatch;
  int from_chunk;
  int to_chunk;
  bool operator==(const Message&) const = default;
};

class Checker {
 public:
  Checker(const Schedule& schedule, size_t limit) : schedule_(schedule), limit_(limit) {}

  std::vector<std::string> Run() {
    const ScheduleConfig& config = schedule_.config;
    if (schedule_.stages.size() != static_cast<size_t>(config.pp)) {
      Broken(fmt::format("there are {} stages instead of {}", schedule_.stages.size(), config.pp));
      return broken_;
    }
    for (int stage = 0; stage < config.pp; ++stage) CheckStage(stage);
    CheckChannels();
    // The simulator looks up operations by what they are; without the first laws it may not find
    // them.
    if (broken_.empty()) {
      for (const Transport transport : {Transport::kEager, Transport::kRendezvous}) {
        const Simulation simulation = Simulate(schedule_, {}, transport);
        if (!simulation.ran()) Broken(DescribeStuck(schedule_, simulation));
      }
    }
    return broken_;
  }

 private:
  const std::vector<Operation>& Operations(int stage) const {
    return schedule_.stages[static_cast<size_t>(stage)];
  }

  void Broken(std::string line) {
    if (broken_.size() < limit_) broken_.push_back(std::move(line));
  }

  // Laws 1, 2, 3 (of one stage), 5 and 6.
  void CheckStage(int stage) {
    const ScheduleConfig& config = schedule_.config;
    std::map<What, std::vector<int>> at;
    const auto& operations = Operations(stage);
    for (int i = 0; i < static_cast<int>(operations.size()); ++i) {
      const Operation& operation = operations[static_cast<size_t>(i)];
      at[{operation.kind, operation.microbatch, operation.chunk}].push_back(i);
      CheckPeer(stage, operation);
      const bool last = static_cast<size_t>(i) + 1 == operations.size();
      if (operation.with_next && (IsCompute(operation.kind) || last ||
                                  IsCompute(operations[static_cast<size_t>(i) + 1].kind))) {
        Broken(fmt::format("stage {}: {} is joined to what is no message", stage,
                           ToString(operation)));
      }
    }
    size_t expected = 0;
    for (int chunk = 0; chunk < config.virtual_chunks; ++chunk) {
      for (int i = 0; i < config.microbatches; ++i)
        expected += CheckMicrobatch(stage, i, chunk, at);
    }
    if (operations.size() != expected) {
      Broken(fmt::format("stage {} has {} operations instead of {}", stage, operations.size(),
                         expected));
    }
    CheckLive(stage);
    CheckAccumulation(stage);
  }

  // Of one microbatch of one chunk; how many operations it takes.
  size_t CheckMicrobatch(int stage, int microbatch, int chunk,
                         const std::map<What, std::vector<int>>& at) {
    const ScheduleConfig& config = schedule_.config;
    const bool split = SplitsBackward(config.kind);
    const int virtual_index = config.VirtualIndex(stage, chunk);
    std::vector<OperationKind> order;
    if (virtual_index > 0) order.push_back(OperationKind::kRecvForward);
    order.push_back(OperationKind::kForward);
    if (virtual_index + 1 < config.virtual_stages()) {
      order.push_back(OperationKind::kSendForward);
      order.push_back(OperationKind::kRecvBackward);
    }
    order.push_back(split ? OperationKind::kBackwardInput : OperationKind::kBackward);
    const OperationKind backward = order.back();
    int previous = -1;
    const auto follow = [&](OperationKind kind, int after) {
      const auto found = at.find({kind, microbatch, chunk});
      const size_t count = found == at.end() ? 0 : found->second.size();
      if (count != 1) {
        Broken(fmt::format("stage {}: {} microbatch {} chunk {} stands {} times instead of once",
                           stage, Name(kind), microbatch, chunk, count));
        return after;
      }
      const int index = found->second.front();
      if (index < after) {
        Broken(fmt::format("stage {}: {} comes before {}", stage,
                           ToString(Operations(stage)[static_cast<size_t>(index)]),
                           ToString(Operations(stage)[static_cast<size_t>(after)])));
      }
      return index;
    };
    int backward_at = -1;
    for (const OperationKind kind : order) {
      previous = follow(kind, previous);
      if (kind == backward) backward_at = previous;
    }
    size_t count = order.size();
    if (virtual_index > 0) {
      follow(OperationKind::kSendBackward, backward_at);
      ++count;
    }
    if (split) {
      follow(OperationKind::kBackwardWeight, backward_at);
      ++count;
    }
    return count;
  }

  // Law 3: the peer is the neighbour.
  void CheckPeer(int stage, const Operation& operation) {
    if (IsCompute(operation.kind)) return;
    const ScheduleConfig& config = schedule_.config;
    const bool next = operation.kind == OperationKind::kSendForward ||
                      operation.kind == OperationKind::kRecvBackward;
    const int peer = config.VirtualIndex(stage, operation.chunk) + (next ? 1 : -1);
    if (operation.peer_stage < 0 || operation.peer_stage >= config.pp ||
        peer != config.VirtualIndex(operation.peer_stage, operation.peer_chunk)) {
      Broken(fmt::format("stage {}: the peer of {} should be stage {} chunk {}", stage,
                         ToString(operation), peer % config.pp, peer / config.pp));
    }
  }

  void CheckLive(int stage) {
    const int bound = LiveActivationBound(schedule_.config, stage);
    int live = 0;
    for (const Operation& operation : Operations(stage)) {
      if (operation.kind == OperationKind::kForward && ++live > bound) {
        Broken(fmt::format("stage {}: {} is the activation {} alive, of at most {}", stage,
                           ToString(operation), live, bound));
      }
      if (operation.kind == OperationKind::kBackward ||
          operation.kind == OperationKind::kBackwardWeight) {
        --live;
      }
    }
  }

  void CheckAccumulation(int stage) {
    std::map<int, int> last;  // by chunk
    for (const Operation& operation : Operations(stage)) {
      if (operation.kind != OperationKind::kBackward &&
          operation.kind != OperationKind::kBackwardWeight) {
        continue;
      }
      const auto [found, fresh] = last.try_emplace(operation.chunk, operation.microbatch);
      if (!fresh && operation.microbatch <= found->second) {
        Broken(fmt::format("stage {}: {} adds to the weight gradients after microbatch {}", stage,
                           ToString(operation), found->second));
      }
      found->second = operation.microbatch;
    }
  }

  // Law 4, and law 3 across stages.
  void CheckChannels() {
    std::map<std::pair<int, int>, std::pair<std::vector<Message>, std::vector<Message>>> channels;
    for (int stage = 0; stage < schedule_.config.pp; ++stage) {
      for (const Operation& operation : Operations(stage)) {
        const bool gradient = IsGradientMessage(operation.kind);
        if (IsSend(operation.kind)) {
          channels[{stage, operation.peer_stage}].first.push_back(
              {gradient, operation.microbatch, operation.chunk, operation.peer_chunk});
        } else if (IsRecv(operation.kind)) {
          channels[{operation.peer_stage, stage}].second.push_back(
              {gradient, operation.microbatch, operation.peer_chunk, operation.chunk});
        }
      }
    }
    for (const auto& [ends, messages] : channels) {
      const auto& [sent, received] = messages;
      if (sent == received) continue;
      const auto [one, other] =
          std::mismatch(sent.begin(), sent.end(), received.begin(), received.end());
      Broken(
          fmt::format("stage {} sends {} messages to stage {}, which receives {}; number {} is {} "
                      "where it is sent and {} where it is received",
                      ends.first, sent.size(), ends.second, received.size(), one - sent.begin(),
                      one == sent.end() ? "none" : Describe(*one),
                      other == received.end() ? "none" : Describe(*other)));
    }
  }

  static std::string Describe(const Message& message) {
    return fmt::format("{} microbatch {} chunk {} to chunk {}",
                       message.gradient ? "gradient" : "activation", message.microbatch,
                       message.from_chunk, message.to_chunk);
  }

  const Schedule& schedule_;
  const size_t limit_;
  std::vector<std::string> broken_;
};

}  // namespace

std::vector<std::string> BrokenLaws(const Schedule& schedule, size_t limit) {
  return Checker(schedule, limit).Run();
}

}  // namespace plumbline
