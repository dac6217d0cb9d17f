// Formulas in which the wrong ranks hold another tensor, another piece of it, or its elements in
// another order.
#ifndef PLUMBLINE_SCENARIOS_FIT_TENSOR_H_
#define PLUMBLINE_SCENARIOS_FIT_TENSOR_H_

#include <optional>

#include "scenarios/evidence.h"

namespace plumbline {

// actual = the same tensor of an earlier step or another microbatch.
std::optional<Formula> FitStale(const Evidence& evidence);
// actual = the piece of another rank, or the own piece shifted by some elements.
std::optional<Formula> FitShard(const Evidence& evidence);
// actual = reference + k * another tensor (a bias, a residual, a microbatch's gradient).
std::optional<Formula> FitAdded(const Evidence& evidence);
// actual = reference with the blocks of one axis in another order, or transposed.
std::optional<Formula> FitPermutation(const Evidence& evidence);

}  // namespace plumbline

#endif  // PLUMBLINE_SCENARIOS_FIT_TENSOR_H_
