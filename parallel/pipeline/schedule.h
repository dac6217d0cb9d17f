// A pipeline schedule as data: for each stage the list of what it computes, sends and receives, in
// order. schedule_builder.h makes one.
//
// A stage holds `virtual_chunks` model chunks. The model runs through them in the order of the
// virtual index chunk * pp + stage, so that the last stage's chunk c is followed by the first
// stage's chunk c + 1. Stages, chunks and microbatches are logical numbers of one pipeline; what a
// peer's rank is, the mesh says. With pp 2 a stage's next and previous peer are the same rank, and
// only the chunk and the direction tell their messages apart (MessageTag).
//
// Errors:   InvalidArgument with the rule that a combination breaks, in Megatron's flag names.
// Source:   GPipe: Huang et al. 2019. 1F1B: Narayanan et al. 2019, 2021. Interleaved 1F1B:
// Narayanan
//           et al. 2021, section 2.2; Megatron-Core pipeline_parallel/schedules.py,
//           get_pp_rank_microbatches and get_schedule_table. Zero bubble: Qi et al. 2023,
//           section 2.
#ifndef PLUMBLINE_PARALLEL_PIPELINE_SCHEDULE_H_
#define PLUMBLINE_PARALLEL_PIPELINE_SCHEDULE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline {

// kNaive: one microbatch at a time through the whole pipeline and back. kGpipe: all forwards, then
// all backwards. kOneForwardOneBackward: stage i warms up with min(p - i - 1, m) forwards, then one
// forward and one backward alternate. kInterleaved: the same over `virtual_chunks` chunks a stage.
// kZeroBubbleH1, kZeroBubbleH2: the backward is split into its input part, on which the previous
// stage waits, and its weight part, which fills what would be idle; H1 holds no more activations
// than 1F1B's first stage, H2 nearly twice as many.
enum class ScheduleKind : uint8_t {
  kNaive,
  kGpipe,
  kOneForwardOneBackward,
  kInterleaved,
  kZeroBubbleH1,
  kZeroBubbleH2
};
inline constexpr ScheduleKind kAllScheduleKinds[] = {
    ScheduleKind::kNaive,       ScheduleKind::kGpipe,        ScheduleKind::kOneForwardOneBackward,
    ScheduleKind::kInterleaved, ScheduleKind::kZeroBubbleH1, ScheduleKind::kZeroBubbleH2};

// "naive", "gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2".
std::string_view Name(ScheduleKind kind);
ScheduleKind ParseScheduleKind(std::string_view name);
// What Megatron runs when nothing else is asked for: interleaved with chunks, 1F1B without.
ScheduleKind DefaultScheduleKind(int virtual_chunks);
bool SplitsBackward(ScheduleKind kind);

struct ScheduleConfig {
  ScheduleKind kind = ScheduleKind::kOneForwardOneBackward;
  int pp = 1;
  int virtual_chunks = 1;
  int microbatches = 1;
  // How many microbatches in a row a chunk takes before the next chunk's turn (interleaved only).
  // 0: pp, Megatron's default.
  int microbatch_group_size = 0;

  int group_size() const { return microbatch_group_size == 0 ? pp : microbatch_group_size; }
  int virtual_stages() const { return pp * virtual_chunks; }
  int VirtualIndex(int stage, int chunk) const { return chunk * pp + stage; }
  bool operator==(const ScheduleConfig&) const = default;
};

// Throws InvalidArgument when Megatron would refuse the combination. Of interleaving with groups of
// g microbatches: pp > 1, more than one chunk, pp <= g <= m, and a last, smaller group (m % g) of
// at least pp. So with the default g = pp, m is a multiple of pp.
void Validate(const ScheduleConfig& config);

enum class OperationKind : uint8_t {
  kForward,
  kBackward,        // whole
  kBackwardInput,   // the gradient of the chunk's input
  kBackwardWeight,  // the gradients of its weights; after it the activations are free
  kSendForward,
  kRecvForward,
  kSendBackward,
  kRecvBackward
};
std::string_view Name(OperationKind kind);  // "send_forward"

bool IsCompute(OperationKind kind);
bool IsSend(OperationKind kind);
bool IsRecv(OperationKind kind);
// Of a message: whether it carries a gradient.
bool IsGradientMessage(OperationKind kind);

struct Operation {
  OperationKind kind = OperationKind::kForward;
  int microbatch = 0;
  int chunk = 0;        // of this stage: the one that computes, produced what is sent, or will use
                        // what is received
  int peer_stage = -1;  // of a message: the other end, and its chunk
  int peer_chunk = -1;
  // Issued together with the next operation, as one batch: none of the batch is waited for before
  // all of it is issued. Where a stage sends and receives between the same two computations it must
  // do so, or two stages could each wait in a send for the other's receive.
  bool with_next = false;

  bool operator==(const Operation&) const = default;
};

// "send_forward microbatch 3 chunk 0 to stage 2 chunk 0"
std::string ToString(const Operation& operation);

struct Schedule {
  ScheduleConfig config;
  std::vector<std::vector<Operation>> stages;  // by stage
};

// A number that tells a message from all others between the same two stages, and is equal at both
// ends: of (direction, receiving virtual stage, microbatch). At least 0, below 2 * pp *
// virtual_chunks * microbatches.
int MessageTag(const ScheduleConfig& config, int stage, const Operation& message);

// Most activations of one microbatch and chunk that `stage` may hold between a forward and the end
// of its backward.
//   naive        1
//   gpipe        m
//   1f1b         min(m, p - i)
//   interleaved  min(v * m, 2 * (p - i - 1) + (v - 1) * g + 1)
//   zb-h1        min(m, p)
//   zb-h2        min(m, 2 * p - 1)
int LiveActivationBound(const ScheduleConfig& config, int stage);

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_PIPELINE_SCHEDULE_H_
