// The chance that a wrong program looks equal in exact mode.
//
// A difference that is a polynomial in uniform values is 0 with a chance of at most degree / p
// (Schwartz and Zippel), and an uninterpreted function that all of a difference must pass maps two
// arguments to one value with chance 1 / p. Over U such functions and segments of degree D between
// them the chance is at most (U + sum of D) / p for one key; keys are independent.
//
// Numerics: counted generously, from the configuration alone. U: for each step and layer two norms,
//           the activation and the scores; beside the layers the final norm, the logits' scores,
//           the logarithm, the square roots of the gradient norm and of the optimizer, and the clip
//           coefficient. D: two programs' values are cross-multiplied, so that each softmax counts
//           twice its number of terms, and so many products as a layer has on the way; a gradient
//           is a sum over all tokens and heads of the step, each with its own denominator.
#ifndef PLUMBLINE_SCENARIOS_EXACT_BOUND_H_
#define PLUMBLINE_SCENARIOS_EXACT_BOUND_H_

#include <cstdint>

#include "base/config.h"

namespace plumbline {

// U and the sum of D of a whole run.
struct ExactDegrees {
  double uninterpreted = 0;
  double degree = 0;
};
ExactDegrees DegreesOf(const RunConfig& config);

// For `keys` independent keys; at most 1.
double FalseEqualityBound(const RunConfig& config, uint64_t prime, int keys);

}  // namespace plumbline

#endif  // PLUMBLINE_SCENARIOS_EXACT_BOUND_H_
