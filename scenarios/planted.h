// Mistakes that are known to happen, to be planted in a scenario from outside.
//
// A policy is swapped or a rank's communicator decorated; the same scenario without it is the clean
// twin.
#ifndef PLUMBLINE_SCENARIOS_PLANTED_H_
#define PLUMBLINE_SCENARIOS_PLANTED_H_

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/scenario.h"

namespace plumbline {

struct Planted {
  std::string name;
  std::string what;  // one line: what goes wrong
  // What of a configuration it needs and lacks, as "--sequence-parallel"; empty: it can be planted.
  std::function<std::string(const RunConfig&)> lacks;
  std::function<void(Scenario&)> plant;
};

const std::vector<Planted>& PlantedMistakes();

// Changes the scenario. Throws InvalidArgument when the name is unknown or the configuration lacks
// what the mistake needs.
void Plant(std::string_view name, Scenario& scenario);

}  // namespace plumbline

#endif  // PLUMBLINE_SCENARIOS_PLANTED_H_
