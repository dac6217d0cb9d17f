#include "scenarios/planted_calls.h"

#include <memory>
#include <utility>

namespace plumbline {

void MutateCalls(Scenario& scenario, RulesOfRank rules) {
  auto mesh = std::make_shared<Mesh>(scenario.config.parallel);
  scenario.decorate = [mesh, rules = std::move(rules)](Rank& rank, Communicator& comm) {
    return std::make_unique<MutationCommunicator>(comm, rules(*mesh, rank.global_rank()));
  };
}

void MutateCallsOfRank(Scenario& scenario, int global_rank, std::function<MutationRule()> rule) {
  MutateCalls(scenario, [global_rank, rule = std::move(rule)](const Mesh&, int rank) {
    return rank == global_rank ? std::vector<MutationRule>{rule()} : std::vector<MutationRule>{};
  });
}

MutationRule FirstResultAgain(CallPredicate predicate) {
  auto first = std::make_shared<Tensor>();
  return ChangeResult(std::move(predicate), [first](Tensor& output) {
    if (!first->defined()) {
      *first = output.Clone(Context{});
    } else {
      output.CopyFrom(*first);
    }
  });
}

}  // namespace plumbline
