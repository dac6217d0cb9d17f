#include "cli/measure_memory.h"

#include "base/batch.h"
#include "base/error.h"
#include "base/init.h"
#include "base/mesh.h"
#include "base/probe.h"
#include "parallel/comm/world.h"
#include "parallel/train/train.h"

namespace plumbline {
namespace {

// A step shows its counters last, when all that outlives it is there and nothing else.
class MemoryProbe : public Probe {
 public:
  MemoryProbe(Allocator& allocator, RankMemory& memory) : allocator_(allocator), memory_(memory) {}

  void Observe(const Site&, const ObservedLayout&, const Tensor&) override {}
  void ObserveCounter(const Site&, int64_t) override {
    for (size_t i = 0; i < kMemoryCategories; ++i) {
      const MemoryUse& use = allocator_.use(static_cast<MemoryCategory>(i));
      memory_.held[i] = use.bytes_now;
      memory_.peak[i] = use.bytes_peak;
    }
  }

 private:
  Allocator& allocator_;
  RankMemory& memory_;
};

// Any tokens do: no size depends on them.
std::vector<uint8_t> SomeBytes() {
  std::vector<uint8_t> bytes(4096);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i);
  return bytes;
}

}  // namespace

std::vector<RankMemory> MeasureMemory(const RunConfig& config) {
  if (config.parallel.cp > 1) {
    throw InvalidArgument("--context-parallel-size {}: ranks do not run it; give --measure no",
                          config.parallel.cp);
  }
  RunConfig one_step = config;
  one_step.train.steps = 1;
  Validate(one_step);
  const Mesh mesh(one_step.parallel);
  const Policies policies;
  const SeededParameters parameters(one_step.model, one_step.train.seed);
  const TextBatches batches(one_step.model, one_step.train, SomeBytes());
  std::vector<RankMemory> memory(static_cast<size_t>(mesh.world_size()));
  WorldOptions options;
  options.size = mesh.world_size();
  options.fingerprint = false;
  const WorldResult result = World(options).Run([&](Rank& rank) {
    MemoryProbe probe(rank.context().memory(), memory[static_cast<size_t>(rank.global_rank())]);
    TrainOnRank(rank, rank.comm(), {one_step, mesh, parameters, batches, policies}, probe);
  });
  PL_CHECK(result.completed);
  return memory;
}

}  // namespace plumbline
