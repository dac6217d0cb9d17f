// Compares everything that the ranks show with the reference, while they run and without gathering.
//
// Each rank's piece is held against the elements of the reference that it stands for. When all
// ranks that hold a tensor have shown it: pieces with the same global indices must be equal bit for
// bit, and so must elements that different pieces share; contributions are summed over the axes
// over which the tensor is partial, in group order, and the sum is compared; together the pieces
// must cover the whole tensor.
//
// Which ranks hold a tensor: those of the pipeline stages that make or receive it (stage_layout.h),
// and of them those of one data-parallel coordinate when the site has a microbatch (number modulo
// dp), else all. What a stage receives is a replica of what the stage before made.
//
// Numerics: bounds.h; noise_floor.h in bf16 and fp16, where contributions are summed in f32 and
// every
//           accumulation is checked exactly (accumulation.h). In a field elements are equal or not,
//           and a tensor's deviation is the number of values that are not, over all ranks.
//           Activation gradients are multiplied by what the parallel program applies later
//           (docs/sites.md): 1 / dp, or 1 / (valid labels of the step) with
//           calculate_per_token_loss. The results do not depend on the schedule.
#ifndef PLUMBLINE_SCENARIOS_COMPARE_H_
#define PLUMBLINE_SCENARIOS_COMPARE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/batch.h"
#include "base/config.h"
#include "base/finding.h"
#include "base/mesh.h"
#include "base/probe.h"
#include "scenarios/noise_floor.h"
#include "scenarios/number.h"
#include "scenarios/reference_trace.h"
#include "scenarios/tally.h"

namespace plumbline {

// One site at which the parallel run and the reference part.
struct Divergence {
  FindingClass kind = FindingClass::kValueMismatch;
  Site site;
  int64_t place = 0;       // in the order of sites
  std::vector<int> ranks;  // that are wrong, ascending
  // Of the whole tensor; infinity for NaN. In a field how many values of all ranks are not equal.
  double deviation = 0;
  double bound = 0;
  // Where it is worst (a NaN: where it comes first), when values differ: the rank, its global index
  // and both values.
  int rank = -1;
  int64_t index = -1;
  Shape shape;
  Number actual;
  Number reference;
  // What is wrong when it is not a pair of values.
  std::string note;
};

struct Comparison {
  std::vector<Divergence> divergences;  // in the order of sites
  std::vector<ComparedQuantity> compared;
};

// What the parallel program's activation gradients lack in a step: the factor, and its inverse.
int64_t ActivationGradientDivisor(const RunConfig& config, const BatchSource& batches,
                                  int64_t step);
double ActivationGradientFactor(const RunConfig& config, const BatchSource& batches, int64_t step);

class Comparer {
 public:
  // All of them must outlive the comparer. The reference may still be running. `noise_floor`: of a
  // bf16 or fp16 run, else null.
  Comparer(const RunConfig& config, const Mesh& mesh, const BatchSource& batches,
           ReferenceTrace& reference, const NoiseFloor* noise_floor = nullptr);
  ~Comparer();
  Comparer(const Comparer&) = delete;
  Comparer& operator=(const Comparer&) = delete;

  Probe& ProbeOf(int global_rank);
  // Called when a step or microbatch is seen for the first time.
  void OnAdvance(std::function<void(const Site&)> callback);

  // After the run. `completed`: all ranks ran to their end, so that what was never shown is
  // missing. Waits for the end of the reference.
  Comparison Finish(bool completed);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plumbline

#endif  // PLUMBLINE_SCENARIOS_COMPARE_H_
