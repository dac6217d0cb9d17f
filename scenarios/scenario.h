// What a scenario is made of, and its parallel run.
#ifndef PLUMBLINE_SCENARIOS_SCENARIO_H_
#define PLUMBLINE_SCENARIOS_SCENARIO_H_

#include <functional>
#include <memory>
#include <string>

#include "base/batch.h"
#include "base/config.h"
#include "base/init.h"
#include "base/mesh.h"
#include "base/probe.h"
#include "parallel/comm/world.h"
#include "parallel/train/policies.h"
#include "scenarios/noise_floor.h"

namespace plumbline {

// Of a run in a field.
struct ExactOptions {
  int keys = 1;                       // independent runs, each with a key of its own
  uint64_t seed = 1;                  // of the keys
  uint64_t small_prime = 2147483647;  // of P31
};

struct Scenario {
  RunConfig config;
  ExactOptions exact;
  NoiseFloorOptions noise_floor;  // of a bf16 or fp16 run
  WorldOptions world;             // size is set from the configuration
  SumOrder sum_order;             // of the parallel program's matrix products
  Policies policies;
  // What one rank does otherwise than the others: its own copy of the configuration and of the
  // policies. Empty: nothing.
  std::function<void(int global_rank, RunConfig& config, Policies& policies)> change_rank;
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

// Who watches a run: a probe per rank, and if need be a decorator around everything that a rank
// issues (what the program says, before the scenario's own decorator changes it).
struct RunObserver {
  std::function<Probe&(int global_rank)> probe_of;
  std::function<std::unique_ptr<Communicator>(Communicator&)> watch;
};

WorldResult RunParallel(const Scenario& scenario, const ScenarioInputs& inputs, const Mesh& mesh,
                        const RunObserver& observer);

}  // namespace plumbline

#endif  // PLUMBLINE_SCENARIOS_SCENARIO_H_
