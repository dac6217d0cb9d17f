#include "parallel/pipeline/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace plumbline {
namespace {

constexpr std::string_view kChunksFlag = "--num-virtual-stages-per-pipeline-rank";
constexpr std::string_view kGroupFlag = "--microbatch-group-size-per-virtual-pipeline-stage";

void ValidateInterleaved(const ScheduleConfig& config) {
  const int m = config.microbatches;
  const int g = config.group_size();
  if (config.pp < 2) {
    throw InvalidArgument(
        "the interleaved schedule needs --pipeline-model-parallel-size of at least 2; it is {}",
        config.pp);
  }
  if (config.virtual_chunks < 2) {
    throw InvalidArgument(
        "the interleaved schedule needs {} of at least 2 (with 1 it is 1f1b); it is {}",
        kChunksFlag, config.virtual_chunks);
  }
  if (m < config.pp) {
    throw InvalidArgument(
        "the interleaved schedule needs at least as many microbatches as "
        "--pipeline-model-parallel-size ({}); there are {}",
        config.pp, m);
  }
  if (g < config.pp || g > m) {
    throw InvalidArgument(
        "{} must lie between --pipeline-model-parallel-size ({}) and the number of microbatches "
        "({}); it is {}",
        kGroupFlag, config.pp, m, g);
  }
  if (m % g != 0 && m % g < config.pp) {
    throw InvalidArgument(
        "the number of microbatches ({}) modulo {} ({}) must be 0 or at least "
        "--pipeline-model-parallel-size ({}); it is {}",
        m, kGroupFlag, g, config.pp, m % g);
  }
}

}  // namespace

std::string_view Name(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::kNaive:
      return "naive";
    case ScheduleKind::kGpipe:
      return "gpipe";
    case ScheduleKind::kOneForwardOneBackward:
      return "1f1b";
    case ScheduleKind::kInterleaved:
      return "interleaved";
    case ScheduleKind::kZeroBubbleH1:
      return "zb-h1";
    case ScheduleKind::kZeroBubbleH2:
      return "zb-h2";
  }
  throw Internal("a schedule kind of value {}", static_cast<int>(kind));
}

ScheduleKind ParseScheduleKind(std::string_view name) {
  std::string names;
  for (const ScheduleKind kind : kAllScheduleKinds) {
    if (Name(kind) == name) return kind;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", Name(kind));
  }
  throw InvalidArgument("--schedule must be one of {}; it is \"{}\"", names, name);
}

ScheduleKind DefaultScheduleKind(int virtual_chunks) {
  return virtual_chunks > 1 ? ScheduleKind::kInterleaved : ScheduleKind::kOneForwardOneBackward;
}

bool SplitsBackward(ScheduleKind kind) {
  return kind == ScheduleKind::kZeroBubbleH1 || kind == ScheduleKind::kZeroBubbleH2;
}

void Validate(const ScheduleConfig& config) {
  const auto at_least_1 = [](std::string_view what, int value) {
    if (value < 1) throw InvalidArgument("{} must be at least 1; it is {}", what, value);
  };
  at_least_1("--pipeline-model-parallel-size", config.pp);
  at_least_1(kChunksFlag, config.virtual_chunks);
  at_least_1("the number of microbatches", config.microbatches);
  if (config.microbatch_group_size < 0) {
    throw InvalidArgument("{} must be at least 1; it is {}", kGroupFlag,
                          config.microbatch_group_size);
  }
  // Six operations a microbatch and virtual stage, and tags of 31 bits.
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max() / 8;
  if (int64_t{config.pp} * config.virtual_chunks > kMost ||
      int64_t{config.pp} * config.virtual_chunks * config.microbatches > kMost) {
    throw InvalidArgument(
        "--pipeline-model-parallel-size ({}) x {} ({}) x microbatches ({}) must be at most {}",
        config.pp, kChunksFlag, config.virtual_chunks, config.microbatches, kMost);
  }
  if (config.kind == ScheduleKind::kInterleaved) {
    ValidateInterleaved(config);
    return;
  }
  if (config.virtual_chunks > 1) {
    throw InvalidArgument("{} of {} needs the interleaved schedule; --schedule is {}", kChunksFlag,
                          config.virtual_chunks, Name(config.kind));
  }
  if (config.microbatch_group_size != 0) {
    throw InvalidArgument("{} needs the interleaved schedule; --schedule is {}", kGroupFlag,
                          Name(config.kind));
  }
}

std::string_view Name(OperationKind kind) {
  switch (kind) {
    case OperationKind::kForward:
      return "forward";
    case OperationKind::kBackward:
      return "backward";
    case OperationKind::kBackwardInput:
      return "backward_input";
    case OperationKind::kBackwardWeight:
      return "backward_weight";
    case OperationKind::kSendForward:
      return "send_forward";
    case OperationKind::kRecvForward:
      return "recv_forward";
    case OperationKind::kSendBackward:
      return "send_backward";
    case OperationKind::kRecvBackward:
      return "recv_backward";
  }
  throw Internal("an operation kind of value {}", static_cast<int>(kind));
}

bool IsCompute(OperationKind kind) { return kind <= OperationKind::kBackwardWeight; }

bool IsSend(OperationKind kind) {
  return kind == OperationKind::kSendForward || kind == OperationKind::kSendBackward;
}

bool IsRecv(OperationKind kind) {
  return kind == OperationKind::kRecvForward || kind == OperationKind::kRecvBackward;
}

bool IsGradientMessage(OperationKind kind) {
  return kind == OperationKind::kSendBackward || kind == OperationKind::kRecvBackward;
}

std::string ToString(const Operation& operation) {
  std::string text = fmt::format("{} microbatch {} chunk {}", Name(operation.kind),
                                 operation.microbatch, operation.chunk);
  if (!IsCompute(operation.kind)) {
    text += fmt::format(" {} stage {} chunk {}", IsSend(operation.kind) ? "to" : "from",
                        operation.peer_stage, operation.peer_chunk);
  }
  return text;
}

int MessageTag(const ScheduleConfig& config, int stage, const Operation& message) {
  PL_CHECK(!IsCompute(message.kind));
  const int receiver = IsSend(message.kind)
                           ? config.VirtualIndex(message.peer_stage, message.peer_chunk)
                           : config.VirtualIndex(stage, message.chunk);
  const int direction = IsGradientMessage(message.kind) ? 1 : 0;
  return (receiver * 2 + direction) * config.microbatches + message.microbatch;
}

int LiveActivationBound(const ScheduleConfig& config, int stage) {
  const int p = config.pp;
  const int m = config.microbatches;
  switch (config.kind) {
    case ScheduleKind::kNaive:
      return 1;
    case ScheduleKind::kGpipe:
      return m;
    case ScheduleKind::kOneForwardOneBackward:
      return std::min(m, p - stage);
    case ScheduleKind::kInterleaved:
      return std::min(config.virtual_chunks * m,
                      2 * (p - stage - 1) + (config.virtual_chunks - 1) * config.group_size() + 1);
    case ScheduleKind::kZeroBubbleH1:
      return std::min(m, p);
    case ScheduleKind::kZeroBubbleH2:
      return std::min(m, 2 * p - 1);
  }
  throw Internal("a schedule kind of value {}", static_cast<int>(config.kind));
}

}  // namespace plumbline
