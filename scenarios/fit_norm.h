// Formulas of a gradient norm in a field, where the square root is a function of which nothing is
// known: every sum of squares that a mistake may give is put under it.
#ifndef PLUMBLINE_SCENARIOS_FIT_NORM_H_
#define PLUMBLINE_SCENARIOS_FIT_NORM_H_

#include <optional>
#include <vector>

#include "scenarios/evidence.h"

namespace plumbline {

// actual = sqrt(k * one part of the reference's squares + l * the other), k and l small, or the
// square root of a sum over another group. `squares`: the parts.
std::optional<Formula> FitNorm(const Evidence& evidence, const std::vector<NamedTensor>& squares);

}  // namespace plumbline

#endif  // PLUMBLINE_SCENARIOS_FIT_NORM_H_
