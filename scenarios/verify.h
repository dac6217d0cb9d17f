// One scenario: a parallel run beside the reference, compared tensor by tensor.
//
// Numerics: in f64 a tensor's deviation, max|actual - reference| / max|reference| over the global
//           tensor (0/0 is 0), must be at most 1e-11; bounds.h has the one exemption and f32's
//           bound, noise_floor.h those of bf16 and fp16. Replicas must be equal bit for bit. In a
//           field all values must be equal, with every key; a run that divided by 0 is void and
//           repeated with another key, unless all of them do: then what was found counts.
// Errors:   InvalidArgument when the configuration is illegal, or a small prime makes all runs
// void.
#ifndef PLUMBLINE_SCENARIOS_VERIFY_H_
#define PLUMBLINE_SCENARIOS_VERIFY_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "base/finding.h"
#include "scenarios/scenario.h"
#include "scenarios/tally.h"

namespace plumbline {

// What a run in a field adds.
struct ExactVerdict {
  uint64_t prime = 0;
  int keys = 0;           // whose runs were compared; the last one failed, or none did
  int64_t void_runs = 0;  // divided by 0, and were repeated with another key
  int64_t values = 0;     // compared, over all ranks and keys
  int64_t unequal = 0;    // of these
  // The most that the chance can be that a wrong program looks equal, with so many keys.
  double false_equality = 1;
};

// What a run in bf16 or fp16 adds. Deviations are in units of `unit`, the dtype's unit roundoff.
struct LowPrecisionVerdict {
  DType dtype = DType::kBF16;
  double unit = 0;      // 2^-8 for bf16, 2^-11 for fp16
  double multiple = 0;  // of max(floor, minimum * unit), as a bound
  double minimum = 0;
  int runs = 0;  // on one rank, of which the floor is the worst
};

struct Verdict {
  bool pass = false;
  std::vector<Finding> findings;  // in site order: the first is the first divergence
  int64_t more_findings = 0;      // later divergences that are not listed
  std::vector<ComparedQuantity> compared;
  bool completed = false;  // every rank ran to the end
  std::optional<ExactVerdict> exact;
  std::optional<LowPrecisionVerdict> low_precision;
};

// The reference runs in a second thread beside the simulated ranks, which run in this one. The
// first finding is diagnosed: both programs run again up to it.
Verdict Verify(const Scenario& scenario, const ScenarioInputs& inputs);

}  // namespace plumbline

#endif  // PLUMBLINE_SCENARIOS_VERIFY_H_
