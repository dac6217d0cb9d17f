// The formula of a gradient that does not count every microbatch once.
#ifndef PLUMBLINE_SCENARIOS_FIT_MICROBATCH_H_
#define PLUMBLINE_SCENARIOS_FIT_MICROBATCH_H_

#include <optional>
#include <vector>

#include "scenarios/evidence.h"

namespace plumbline {

// actual = sum over microbatches of weight * gradient, by least squares. `gradients` are each
// microbatch's share of the reference, so that the right weights are all 1.
std::optional<Formula> FitMicrobatches(const Evidence& evidence,
                                       const std::vector<Values>& gradients);

}  // namespace plumbline

#endif  // PLUMBLINE_SCENARIOS_FIT_MICROBATCH_H_
