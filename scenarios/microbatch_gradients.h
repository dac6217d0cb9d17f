// The reference's gradient of one microbatch at a time.
#ifndef PLUMBLINE_SCENARIOS_MICROBATCH_GRADIENTS_H_
#define PLUMBLINE_SCENARIOS_MICROBATCH_GRADIENTS_H_

#include <vector>

#include "base/site.h"
#include "scenarios/evidence.h"
#include "scenarios/reference_trace.h"
#include "scenarios/scenario.h"

namespace plumbline {

// Each microbatch's share of the reference's gradient of a parameter, by training on it alone.
// Empty when that would not be the same: dropout draws by step, so after the first step.
std::vector<Values> MicrobatchGradients(const RunConfig& config, const ScenarioInputs& inputs,
                                        const Site& site, ReferenceTrace& reference);

}  // namespace plumbline

#endif  // PLUMBLINE_SCENARIOS_MICROBATCH_GRADIENTS_H_
