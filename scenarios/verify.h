// One scenario: a parallel run beside the reference, compared tensor by tensor.
//
// Numerics: in f64 a tensor's deviation, max|actual - reference| / max|reference| over the global
//           tensor (0/0 is 0), must be at most 1e-11; bounds.h has the one exemption and f32's
//           bound. Replicas must be equal bit for bit.
// Errors:   InvalidArgument when the configuration is illegal.
#ifndef PLUMBLINE_SCENARIOS_VERIFY_H_
#define PLUMBLINE_SCENARIOS_VERIFY_H_

#include <cstdint>
#include <vector>

#include "base/finding.h"
#include "scenarios/scenario.h"
#include "scenarios/tally.h"

namespace plumbline {

struct Verdict {
  bool pass = false;
  std::vector<Finding> findings;  // in site order: the first is the first divergence
  int64_t more_findings = 0;      // later divergences that are not listed
  std::vector<ComparedQuantity> compared;
  bool completed = false;  // every rank ran to the end
};

// The reference runs in a second thread beside the simulated ranks, which run in this one. The
// first finding is diagnosed: both programs run again up to it.
Verdict Verify(const Scenario& scenario, const ScenarioInputs& inputs);

}  // namespace plumbline

#endif  // PLUMBLINE_SCENARIOS_VERIFY_H_
