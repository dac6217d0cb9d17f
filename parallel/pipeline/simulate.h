// Runs a pipeline schedule on paper: given what each operation costs, when it starts and ends, how
// much of the time is idle, how many activations are alive, and whether the schedule runs at all.
// Times are whole numbers, so every figure is exact.
//
// The bubble fraction is 1 - work / span on the stage whose span, from its first computation's
// start to its last one's end, is the longest. For all schedules but zero-bubble ones this equals
// the idle share of stages x makespan, since their first stage opens and closes the step and all
// stages work the same. A zero-bubble stage may start late and end late without idling in between,
// and then waits for nothing until the next step.
//
// Errors:   InvalidArgument for a cost that is negative, or a sum of costs beyond 64 bits.
// Source:   bubbles as in schedule.h; zero-bubble: Qi et al. 2023, table 1 and section 5.
#ifndef PLUMBLINE_PARALLEL_PIPELINE_SIMULATE_H_
#define PLUMBLINE_PARALLEL_PIPELINE_SIMULATE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parallel/pipeline/schedule.h"

namespace plumbline {

// Of one microbatch through one chunk, in any unit. A whole backward costs both of its parts.
struct Costs {
  int64_t forward = 1;
  int64_t backward_input = 1;
  int64_t backward_weight = 1;
  int64_t communication = 0;  // from send to arrival

  int64_t backward() const { return backward_input + backward_weight; }
};

// In lowest terms.
struct Fraction {
  int64_t numerator = 0;
  int64_t denominator = 1;

  double value() const { return static_cast<double>(numerator) / static_cast<double>(denominator); }
  bool operator==(const Fraction&) const = default;
};
Fraction MakeFraction(int64_t numerator, int64_t denominator);

// kEager: a send leaves at once and holds nobody up; a computation waits until its own input is
// there. kRendezvous: a batch of messages holds its stage until each of them has met its other end.
enum class Transport : uint8_t { kEager, kRendezvous };

struct TimeSpan {
  int64_t start = 0;
  int64_t end = 0;
};

// A stage that gets no further than `operation` (an index into its list) because `on_stage` does
// not get on, or, when that is -1, because nothing in the schedule will ever let it.
struct Wait {
  int stage = -1;
  int operation = -1;
  int on_stage = -1;
};

struct Simulation {
  // By stage and operation, messages included; of a stage that is stuck, those that came before.
  std::vector<std::vector<TimeSpan>> spans;
  int64_t makespan = 0;
  std::vector<int64_t> busy;        // by stage: time spent computing
  std::vector<int64_t> stage_span;  // by stage: from its first computation to its last
  std::vector<int> peak_live;       // by stage: activations, each of one microbatch and chunk
  Fraction bubble;                  // of a schedule that ran
  // Empty when the schedule ran to its end. Else who waits for whom: a cycle (the last waits for
  // the first), or a chain that ends at something missing.
  std::vector<Wait> stuck;

  bool ran() const { return stuck.empty(); }
};

Simulation Simulate(const Schedule& schedule, const Costs& costs,
                    Transport transport = Transport::kEager);

// "deadlock: stage 0 waits in send_forward microbatch 1 chunk 0 to stage 1 chunk 0; stage 1 waits
// in send_backward microbatch 0 chunk 0 to stage 0 chunk 0; which closes the cycle"; empty when it
// ran.
std::string DescribeStuck(const Schedule& schedule, const Simulation& simulation);

// The bubble fraction by formula, where there is one: when communication costs nothing, and under
// the condition on the right. F, B, W: the costs of a forward and of the two parts of a backward.
//   naive         (p - 1) / p
//   gpipe, 1f1b   (p - 1) / (m + p - 1)
//   interleaved   (p - 1) / (v * m + p - 1)                for every legal group size
//   zb-h1         idle / (m * (F + B + W) + idle)          m >= p, F >= W
//                 idle = (p - 1) * (F + B - W)
//   zb-h2         idle / (m * (F + B + W) + idle)          m >= 2 * p - 1, F >= W or F >= B
//                 idle = (p - 1) * max(0, F + B - 2 * W)
std::optional<Fraction> BubbleFormula(const ScheduleConfig& config, const Costs& costs);

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_PIPELINE_SIMULATE_H_
