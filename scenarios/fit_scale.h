// Formulas in which the wrong ranks' values are a function of the reference's alone.
#ifndef PLUMBLINE_SCENARIOS_FIT_SCALE_H_
#define PLUMBLINE_SCENARIOS_FIT_SCALE_H_

#include <optional>

#include "scenarios/evidence.h"

namespace plumbline {

// actual = 0; actual = k * reference, k a named number.
std::optional<Formula> FitScale(const Evidence& evidence);
// Where they differ: actual = 0, actual = k * reference; one element alone, or one bit of it.
std::optional<Formula> FitPart(const Evidence& evidence);
// actual = reference + a constant, such as log(tp).
std::optional<Formula> FitOffset(const Evidence& evidence);
// A difference of the size of rounding.
std::optional<Formula> FitRounding(const Evidence& evidence);

}  // namespace plumbline

#endif  // PLUMBLINE_SCENARIOS_FIT_SCALE_H_
