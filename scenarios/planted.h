// Mistakes that are known to happen, to be planted in a scenario from outside.
//
// A policy is swapped or a rank's communicator decorated; the same scenario without it is the clean
// twin.
#ifndef PLUMBLINE_SCENARIOS_PLANTED_H_
#define PLUMBLINE_SCENARIOS_PLANTED_H_

#include <string_view>
#include <vector>

#include "scenarios/planted_mistake.h"
#include "scenarios/scenario.h"

namespace plumbline {

const std::vector<Planted>& PlantedMistakes();

// Changes the scenario. Throws InvalidArgument when the name is unknown or the configuration lacks
// what the mistake needs.
void Plant(std::string_view name, Scenario& scenario);

}  // namespace plumbline

#endif  // PLUMBLINE_SCENARIOS_PLANTED_H_
