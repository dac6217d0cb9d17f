// Formulas about reductions: what the ranks of a group hold, or put into the reduction of this
// tensor.
#ifndef PLUMBLINE_SCENARIOS_FIT_GROUP_H_
#define PLUMBLINE_SCENARIOS_FIT_GROUP_H_

#include <optional>

#include "scenarios/evidence.h"

namespace plumbline {

// sum over a group of actual = reference (a reduction is missing), or the mean of them; with a bias
// that each rank added, sum = reference + k * bias.
std::optional<Formula> FitGroupSum(const Evidence& evidence);

// From the terms of the reductions at this site: actual = one rank's own term, the sum over another
// group, the maximum, or reference + k * one rank's term.
std::optional<Formula> FitTerms(const Evidence& evidence);

}  // namespace plumbline

#endif  // PLUMBLINE_SCENARIOS_FIT_GROUP_H_
