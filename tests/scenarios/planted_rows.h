// Planted mistakes and what must be said about each.
#ifndef PLUMBLINE_TESTS_SCENARIOS_PLANTED_ROWS_H_
#define PLUMBLINE_TESTS_SCENARIOS_PLANTED_ROWS_H_

#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

#include "base/finding.h"
#include "tests/scenarios/plants.h"
#include "tests/scenarios/scenario_testing.h"

namespace plumbline {

struct PlantedRow {
  std::string name;
  size_t model;  // of NamedModels()
  Layout layout;
  Plant plant;
  FindingClass kind;
  std::vector<int> ranks;
  std::string site;
  std::string group;
  std::string formula;  // a part of it; empty: none is expected
};

// For GoogleTest.
void PrintTo(const PlantedRow& row, std::ostream* out);

std::vector<PlantedRow> AllPlantedRows();

}  // namespace plumbline

#endif  // PLUMBLINE_TESTS_SCENARIOS_PLANTED_ROWS_H_
