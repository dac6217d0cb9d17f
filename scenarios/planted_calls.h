// Decorators that plant mistakes in what some ranks say to their communicators.
#ifndef PLUMBLINE_SCENARIOS_PLANTED_CALLS_H_
#define PLUMBLINE_SCENARIOS_PLANTED_CALLS_H_

#include <functional>
#include <vector>

#include "base/mesh.h"
#include "parallel/comm/mutation.h"
#include "scenarios/scenario.h"

namespace plumbline {

using RulesOfRank = std::function<std::vector<MutationRule>(const Mesh&, int global_rank)>;

// Each rank's communicator gets its rules; rules with a memory are made for each by itself.
void MutateCalls(Scenario& scenario, RulesOfRank rules);
void MutateCallsOfRank(Scenario& scenario, int global_rank, std::function<MutationRule()> rule);

// Keeps the first result and gives it again ever after.
MutationRule FirstResultAgain(CallPredicate predicate);

}  // namespace plumbline

#endif  // PLUMBLINE_SCENARIOS_PLANTED_CALLS_H_
