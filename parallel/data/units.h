// The parameters of a model chunk by the units that use them (embedding, layer, head).
#ifndef PLUMBLINE_PARALLEL_DATA_UNITS_H_
#define PLUMBLINE_PARALLEL_DATA_UNITS_H_

#include <vector>

#include "parallel/tensor/parameter.h"

namespace plumbline {

// Each parameter once, in the order of units.
std::vector<Parameter*> ParametersOf(const std::vector<std::vector<Parameter*>>& units);

// Whether any element holds the allocator's poison: nobody wrote it.
bool HoldsPoison(const Tensor& tensor);

// Reports the first parameter of a unit that is used before its weights are there.
void CheckUsable(const RankEnv& env, const Pass& pass, const std::vector<Parameter*>& unit);

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_DATA_UNITS_H_
