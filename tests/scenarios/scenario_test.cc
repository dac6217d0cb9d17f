#include "scenarios/scenario.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fingerprint/record.h"
#include "scenarios/capture.h"
#include "tests/scenarios/scenario_testing.h"

namespace plumbline {
namespace {

// What every rank shows, as hashes by site, and in which order.
class HashingProbe : public Probe {
 public:
  void Observe(const Site& site, const ObservedLayout& /*layout*/, const Tensor& local) override {
    shown.emplace_back(ToString(site), ToString(ChecksumOf(local)));
  }
  void ObserveCounter(const Site& site, int64_t value) override {
    shown.emplace_back(ToString(site), std::to_string(value));
  }

  std::vector<std::pair<std::string, std::string>> shown;
};

struct HashedRun {
  std::vector<HashingProbe> ranks;
  std::vector<std::string> issued;  // who issued, in order of issue
};

HashedRun RunHashed(const Scenario& scenario) {
  const SeededParameters parameters(scenario.config.model, scenario.config.train.seed);
  const TextBatches batches(scenario.config.model, scenario.config.train, {3, 1, 4, 1, 5, 9, 2});
  const Mesh mesh(scenario.config.parallel);
  HashedRun run;
  run.ranks.resize(static_cast<size_t>(mesh.world_size()));
  RunObserver observer;
  observer.probe_of = [&](int rank) -> Probe& { return run.ranks[static_cast<size_t>(rank)]; };
  const WorldResult result = RunParallel(scenario, {parameters, batches}, mesh, observer);
  EXPECT_TRUE(result.completed);
  for (const CollectiveRecord& record : result.records) {
    run.issued.push_back(std::to_string(record.global_rank) + " " + ToString(record.site));
  }
  return run;
}

bool SameTensors(const HashedRun& a, const HashedRun& b) {
  for (size_t rank = 0; rank < a.ranks.size(); ++rank) {
    if (a.ranks[rank].shown != b.ranks[rank].shown) return false;
  }
  return a.ranks.size() == b.ranks.size();
}

TEST(ScenarioTest, TenSchedulesGiveTheSameTensorsBitForBit) {
  for (const size_t model : {0, 1}) {
    Scenario scenario = MakeScenario(NamedModels()[model], {2, 3, true}, 2);
    const HashedRun expected = RunHashed(scenario);
    EXPECT_GT(expected.ranks[0].shown.size(), 100U);
    scenario.world.policy = SchedulePolicy::kRandom;
    int other_orders = 0;
    for (scenario.world.seed = 1; scenario.world.seed <= 10; ++scenario.world.seed) {
      const HashedRun run = RunHashed(scenario);
      EXPECT_TRUE(SameTensors(run, expected)) << "schedule " << scenario.world.seed;
      other_orders += run.issued != expected.issued ? 1 : 0;
    }
    EXPECT_GT(other_orders, 5) << "the schedules do differ";
  }
}

TEST(ScenarioTest, ARunIsAFunctionOfItsSeed) {
  Scenario scenario = MakeScenario(NamedModels()[3], {4, 2, true}, 2);
  scenario.world.policy = SchedulePolicy::kRandom;
  scenario.world.seed = 7;
  const HashedRun first = RunHashed(scenario);
  const HashedRun second = RunHashed(scenario);
  EXPECT_TRUE(SameTensors(first, second));
  EXPECT_EQ(first.issued, second.issued);
}

TEST(ScenarioTest, AnotherTrainingSeedGivesOtherTensors) {
  Scenario scenario = MakeScenario(NamedModels()[0], {2, 1, false}, 2);
  const HashedRun first = RunHashed(scenario);
  ++scenario.config.train.seed;
  EXPECT_FALSE(SameTensors(first, RunHashed(scenario)));
}

// Where outputs are cut by columns, sequence parallelism changes nothing in the forward pass.
TEST(ScenarioTest, SequenceParallelismGivesBitEqualForwards) {
  const auto columns = [](const HashedRun& run) {
    std::map<std::string, std::string> hashes;
    for (size_t rank = 0; rank < run.ranks.size(); ++rank) {
      for (const auto& [site, hash] : run.ranks[rank].shown) {
        const bool column = site.ends_with("linear_qkv value") ||
                            site.ends_with("linear_fc1 value") ||
                            site.ends_with("output_layer value");
        if (column) hashes[std::to_string(rank) + " " + site] = hash;
      }
    }
    return hashes;
  };
  for (const NamedModel& model : NamedModels()) {
    Scenario scenario = MakeScenario(model, {2, 2, false}, 2);
    // Gradients add in another order under sequence parallelism, so that later steps differ in
    // their last bits.
    scenario.config.train.steps = 1;
    const auto without = columns(RunHashed(scenario));
    scenario.config.parallel.sequence_parallel = true;
    EXPECT_EQ(columns(RunHashed(scenario)), without) << model.name;
    EXPECT_EQ(without.size(), 2U * 2U * 2U * 5U) << "ranks of a microbatch, microbatches, layers";
  }
}

// What all ranks hold of layer 0's linear_qkv in the first microbatch, by global index.
std::map<int64_t, double> FirstQkv(const Scenario& scenario) {
  const SeededParameters parameters(scenario.config.model, scenario.config.train.seed);
  const TextBatches batches(scenario.config.model, scenario.config.train, {3, 1, 4, 1, 5, 9, 2});
  const Mesh mesh(scenario.config.parallel);
  Site site;
  site.step = 1;
  site.microbatch = 0;
  site.tensor = "decoder.layers.0.self_attention.linear_qkv";
  Capture capture(site);
  RunObserver observer;
  observer.probe_of = [&](int rank) -> Probe& { return capture.ProbeOf(rank); };
  RunParallel(scenario, {parameters, batches}, mesh, observer);
  std::map<int64_t, double> values;
  for (const CapturedTensor& tensor : capture.TakeTensors()) {
    const std::vector<double> local = tensor.local.ToVector<double>();
    for (size_t i = 0; i < local.size(); ++i) {
      const auto [known, fresh] = values.emplace(tensor.layout.piece.global_index[i], local[i]);
      EXPECT_EQ(known->second, local[i]) << "ranks differ at " << known->first;
    }
  }
  return values;
}

TEST(ScenarioTest, FirstColumnParallelOutputHasTheBitsOfTheUnshardedProduct) {
  for (const NamedModel& model : NamedModels()) {
    if (model.model.vocab_padding == VocabPadding::kMegatron) continue;  // depends on tp
    const std::map<int64_t, double> whole = FirstQkv(MakeScenario(model, {1, 1, false}, 2));
    EXPECT_GT(whole.size(), 1000U);
    for (const Layout& layout : {Layout{2, 1, false}, Layout{4, 2, true}, Layout{8, 1, true}}) {
      EXPECT_EQ(FirstQkv(MakeScenario(model, layout, 2)), whole)
          << model.name << " " << NameOf(layout);
    }
  }
}

}  // namespace
}  // namespace plumbline
