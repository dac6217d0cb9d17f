// Formulas in which the wrong ranks hold another tensor, another piece of it, or its elements in
// another order.
#ifndef PLUMBLINE_SCENARIOS_FIT_TENSOR_H_
#define PLUMBLINE_SCENARIOS_FIT_TENSOR_H_

#include <optional>

#include "scenarios/evidence.h"

namespace plumbline {

// actual = the same tensor of an earlier step or another microbatch.
std::optional<Formula> FitStale(const Evidence& evidence);
// actual = the piece of another rank.
std::optional<Formula> FitShard(const Evidence& evidence);
// actual[i] = reference[i + shift].
std::optional<Formula> FitShift(const Evidence& evidence);
// actual = reference + k * another tensor (a bias, a residual), or that tensor alone.
std::optional<Formula> FitAdded(const Evidence& evidence);
// actual = reference with the blocks of one axis in another order, or transposed.
std::optional<Formula> FitPermutation(const Evidence& evidence);

}  // namespace plumbline

#endif  // PLUMBLINE_SCENARIOS_FIT_TENSOR_H_
