// One mistake that can be planted in a scenario.
#ifndef PLUMBLINE_SCENARIOS_PLANTED_MISTAKE_H_
#define PLUMBLINE_SCENARIOS_PLANTED_MISTAKE_H_

#include <functional>
#include <string>

#include "base/config.h"
#include "scenarios/scenario.h"

namespace plumbline {

struct Planted {
  std::string name;
  std::string what;  // one line: what goes wrong
  // What of a configuration it needs and lacks, as "--sequence-parallel"; empty: it can be planted.
  std::function<std::string(const RunConfig&)> lacks;
  std::function<void(Scenario&)> plant;
};

}  // namespace plumbline

#endif  // PLUMBLINE_SCENARIOS_PLANTED_MISTAKE_H_
