#include "scenarios/scenario.h"

#include "parallel/train/train.h"

namespace plumbline {

WorldResult RunParallel(const Scenario& scenario, const ScenarioInputs& inputs, const Mesh& mesh,
                        const RunObserver& observer) {
  WorldOptions options = scenario.world;
  options.size = scenario.config.parallel.world_size();
  World world(options);
  return world.Run([&](Rank& rank) {
    std::unique_ptr<Communicator> decorated;
    Communicator* comm = &rank.comm();
    if (scenario.decorate) {
      decorated = scenario.decorate(rank, *comm);
      if (decorated != nullptr) comm = decorated.get();
    }
    std::unique_ptr<Communicator> watched;
    if (observer.watch) {
      watched = observer.watch(*comm);
      comm = watched.get();
    }
    RunConfig config = scenario.config;
    Policies policies = scenario.policies;
    if (scenario.change_rank) scenario.change_rank(rank.global_rank(), config, policies);
    const TrainInputs train = {config,         mesh,     inputs.parameters,
                               inputs.batches, policies, scenario.sum_order};
    TrainOnRank(rank, *comm, train, observer.probe_of(rank.global_rank()));
  });
}

}  // namespace plumbline
