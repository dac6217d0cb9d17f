// Trains on simulated ranks and puts together what they show.
#ifndef PLUMBLINE_TESTS_PARALLEL_TRAIN_RUN_LAYOUT_H_
#define PLUMBLINE_TESTS_PARALLEL_TRAIN_RUN_LAYOUT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/init.h"
#include "base/site.h"
#include "base/tensor.h"
#include "parallel/comm/world.h"
#include "parallel/train/policies.h"

namespace plumbline {

// One site's tensor, whole.
struct ShownTensor {
  Site site;
  Shape shape;
  std::vector<double> values;
};

struct LayoutRun {
  std::map<std::string, ShownTensor> tensors;  // by ToString(site)
  std::map<std::string, int64_t> counters;
  // Copies that are not bit-equal, tensors with holes: "step 1 ... rank 3: ...".
  std::vector<std::string> complaints;
  int64_t collectives = 0;

  const std::vector<double>& At(const std::string& site) const;
};

struct LayoutOptions {
  Policies policies;
  const ParameterSource* parameters = nullptr;  // nullptr: seeded
  SchedulePolicy schedule = SchedulePolicy::kRoundRobin;
  uint64_t schedule_seed = 0;
};

LayoutRun RunLayout(const RunConfig& config, const LayoutOptions& options);
LayoutRun RunLayout(const RunConfig& config);  // with the right decisions

// What multiplies an activation gradient of this run to make it that of the step loss, with the
// default normalisation; with per-token loss all layouts lack the same factor.
double GradientFactor(const RunConfig& config);

// "" when every tensor of `reference` is in `run` and within `bound` (a deviation), else the first
// few that are not.
std::string Differences(const LayoutRun& run, const RunConfig& config, const LayoutRun& reference,
                        const RunConfig& reference_config, double bound);

double DeviationOf(const std::vector<double>& actual, const std::vector<double>& reference);

}  // namespace plumbline

#endif  // PLUMBLINE_TESTS_PARALLEL_TRAIN_RUN_LAYOUT_H_
