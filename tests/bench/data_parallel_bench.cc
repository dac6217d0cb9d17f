// What data parallelism costs beside the computations.
//
//   bazelw run //tests/bench:data_parallel_bench
//
// Steps of a model of a million parameters on 64 data-parallel ranks, f32, nobody watching:
// processor time and memory of a step by sharding strategy, as ratios to no_shard; what the
// buffers' bookkeeping adds to a reduction parameter by parameter, and the fingerprint's share.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <string>
#include <vector>

#include "base/batch.h"
#include "base/init.h"
#include "base/mesh.h"
#include "parallel/comm/world.h"
#include "parallel/train/train.h"

namespace plumbline {
namespace {

constexpr int kRepeats = 2;

class Silent : public Probe {
 public:
  void Observe(const Site&, const ObservedLayout&, const Tensor&) override {}
  void ObserveCounter(const Site&, int64_t) override {}
};

RunConfig Million() {
  RunConfig config;
  config.dtype = DType::kF32;
  TransformerConfig& model = config.model;
  model.num_layers = 4;
  model.hidden_size = 144;
  model.ffn_hidden_size = 4 * 144;
  model.num_attention_heads = 4;
  model.num_query_groups = 4;
  model.kv_channels = 36;
  model.seq_length = 16;
  config.train.micro_batch_size = 1;
  config.train.global_batch_size = 64;
  config.parallel.dp = 64;
  return config;
}

struct Measured {
  double step_seconds = 0;
  double bytes_per_rank = 0;  // parameters, gradients, optimizer, gathered weights, at their peak
};

double RunSeconds(const RunConfig& config, bool fingerprint, double& bytes) {
  static const std::vector<uint8_t> text(4001, 'a');
  const Mesh mesh(config.parallel);
  const SeededParameters parameters(config.model, config.train.seed);
  const TextBatches batches(config.model, config.train, text);
  const Policies policies;
  const TrainInputs inputs = {config, mesh, parameters, batches, policies};
  WorldOptions options;
  options.size = mesh.world_size();
  options.fingerprint = fingerprint;
  World world(options);
  const std::clock_t begin = std::clock();
  world.Run([&](Rank& rank) {
    Silent probe;
    TrainOnRank(rank, rank.comm(), inputs, probe);
    if (rank.global_rank() != 0) return;
    bytes = 0;
    for (const MemoryCategory category : {MemoryCategory::kParameter, MemoryCategory::kGradient,
                                          MemoryCategory::kOptimizer, MemoryCategory::kGathered}) {
      bytes += static_cast<double>(rank.context().memory().use(category).bytes_peak);
    }
  });
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

// Start and first step taken away. The best of several runs: others on the machine only add.
Measured Measure(RunConfig config, bool fingerprint = true) {
  Measured measured;
  const auto best = [&](int64_t steps) {
    config.train.steps = steps;
    double seconds = 1e9;
    for (int i = 0; i < kRepeats; ++i) {
      seconds = std::min(seconds, RunSeconds(config, fingerprint, measured.bytes_per_rank));
    }
    return seconds;
  };
  const double one = best(1);
  measured.step_seconds = (best(4) - one) / 3;
  return measured;
}

RunConfig WithBuffers(ShardingStrategy strategy) {
  RunConfig config = Million();
  DataParallelConfig& data = config.parallel.data;
  data.gradient_buffers = true;
  data.sharding_strategy = strategy;
  data.overlap_grad_reduce = true;
  data.overlap_param_gather = strategy != ShardingStrategy::kNoShard;
  data.bucket_size = 200'000;
  return config;
}

void Print() {
  Measure(Million());  // the heap grows
  const Measured by_parameter = Measure(Million());
  const Measured base = Measure(WithBuffers(ShardingStrategy::kNoShard));
  fmt::print("64 data-parallel ranks, about 1 M parameters, f32; a step with no_shard {:.0f} ms\n",
             base.step_seconds * 1e3);
  fmt::print("{:<22} {:>12} {:>14}\n", "strategy", "step / none", "bytes / none");
  for (const ShardingStrategy strategy :
       {ShardingStrategy::kNoShard, ShardingStrategy::kOptim, ShardingStrategy::kOptimGrads,
        ShardingStrategy::kOptimGradsParams}) {
    const Measured measured =
        strategy == ShardingStrategy::kNoShard ? base : Measure(WithBuffers(strategy));
    fmt::print("{:<22} {:>12.2f} {:>14.2f}\n", Name(strategy),
               measured.step_seconds / base.step_seconds,
               measured.bytes_per_rank / base.bytes_per_rank);
  }
  const Measured silent = Measure(WithBuffers(ShardingStrategy::kNoShard), /*fingerprint=*/false);
  fmt::print("buffers / one all_reduce per parameter  {:.3f}\n",
             base.step_seconds / by_parameter.step_seconds);
  fmt::print("with fingerprints / without             {:.3f}\n",
             base.step_seconds / silent.step_seconds);
}

}  // namespace
}  // namespace plumbline

int main() { plumbline::Print(); }
