// One scenario: a parallel run beside the reference, compared tensor by tensor.
//
// Numerics: in f64 a tensor's deviation, max|actual - reference| / max|reference| over the global
// tensor (0/0 is 0),
//           must be at most 1e-11; DESIGN 1.2 has the one exemption, for parameters and moments
//           under Adam whose gradient is analytically zero. Replicas must be equal bit for bit.
// Errors:   InvalidArgument when the configuration is illegal.
#ifndef PLUMBLINE_SCENARIOS_VERIFY_H_
#define PLUMBLINE_SCENARIOS_VERIFY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/batch.h"
#include "base/config.h"
#include "base/finding.h"
#include "base/init.h"
#include "parallel/comm/world.h"
#include "parallel/train/policies.h"
#include "scenarios/compare.h"

namespace plumbline {

struct Verdict {
  bool pass = false;
  std::vector<Finding> findings;  // in site order: the first is the first divergence
  int64_t more_findings = 0;      // later divergences that are not listed
  std::vector<ComparedQuantity> compared;
  bool completed = false;  // every rank ran to the end
};

struct Scenario {
  RunConfig config;
  WorldOptions world;  // size is set from the configuration
  Policies policies;
  // Decorates one rank's communicator; empty: none. Called once per rank and run (a diagnosis runs
  // again).
  std::function<std::unique_ptr<Communicator>(Rank&, Communicator&)> decorate;
  std::string repeat;  // the command line that repeats it, for the findings
  int max_findings = 10;
  // Called now and then with a fraction in [0, 1] and what is being done. Empty: silent.
  std::function<void(double, const std::string&)> progress;
};

struct ScenarioInputs {
  const ParameterSource& parameters;
  const BatchSource& batches;
};

Verdict Verify(const Scenario& scenario, const ScenarioInputs& inputs);

}  // namespace plumbline

#endif  // PLUMBLINE_SCENARIOS_VERIFY_H_
