// Mistakes of what every rank computes by itself: divisors, dropout masks, the optimizer's formula.
#ifndef PLUMBLINE_SCENARIOS_PLANTED_STEP_H_
#define PLUMBLINE_SCENARIOS_PLANTED_STEP_H_

#include <vector>

#include "scenarios/planted_mistake.h"

namespace plumbline {

std::vector<Planted> PlantedStepMistakes();

}  // namespace plumbline

#endif  // PLUMBLINE_SCENARIOS_PLANTED_STEP_H_
