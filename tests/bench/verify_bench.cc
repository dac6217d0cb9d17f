// How long a verdict takes, and which part of a step the fingerprint is.
//
//   bazelw run //tests/bench:verify_bench
//
// Prints ratios within one run: the verdict of 16 ranks (tp 4 x dp 4, 4 layers, h 64, seq 32, micro
// batch 2, 2 microbatches, 3 steps) to its limit of one second, the parts it is made of, and the
// parallel steps with the fingerprint to those without.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <functional>
#include <limits>
#include <vector>

#include "base/batch.h"
#include "base/init.h"
#include "oracle/reference.h"
#include "scenarios/verify.h"

namespace plumbline {
namespace {

Scenario SixteenRanks() {
  Scenario scenario;
  TransformerConfig& model = scenario.config.model;
  model.num_layers = 4;
  model.hidden_size = 64;
  model.ffn_hidden_size = 256;
  model.num_attention_heads = 8;
  model.num_query_groups = 4;
  model.kv_channels = 8;
  model.seq_length = 32;
  model.max_position_embeddings = 32;
  model.hidden_dropout = 0.1;
  model.attention_dropout = 0.1;
  TrainConfig& train = scenario.config.train;
  train.steps = 3;
  train.micro_batch_size = 2;
  train.global_batch_size = 2 * 2 * 4;
  train.packed_documents = true;
  train.loss_mask_keep = 0.8;
  scenario.config.parallel.tp = 4;
  scenario.config.parallel.dp = 4;
  scenario.config.parallel.sequence_parallel = true;
  return scenario;
}

// Wall and processor time of one call, in seconds.
struct Times {
  double wall = std::numeric_limits<double>::infinity();
  double processor = std::numeric_limits<double>::infinity();
};

Times TimeOnce(const std::function<void()>& run) {
  const auto wall = std::chrono::steady_clock::now();
  const std::clock_t processor = std::clock();
  run();
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - wall).count(),
          static_cast<double>(std::clock() - processor) / CLOCKS_PER_SEC};
}

// The best of several runs: what others do on the machine only adds.
Times BestOf(int runs, const std::function<void()>& run) {
  Times best;
  for (int i = 0; i < runs; ++i) {
    const Times times = TimeOnce(run);
    best.wall = std::min(best.wall, times.wall);
    best.processor = std::min(best.processor, times.processor);
  }
  return best;
}

// Looks at nothing.
class QuietProbe : public Probe {
 public:
  void Observe(const Site& /*site*/, const ObservedLayout& /*layout*/,
               const Tensor& /*local*/) override {}
  void ObserveCounter(const Site& /*site*/, int64_t /*value*/) override {}
};
class QuietSink : public ReferenceSink {
 public:
  void Record(const Site& /*site*/, Tensor /*global*/) override {}
  void RecordCounter(const Site& /*site*/, int64_t /*value*/) override {}
};

class Bench {
 public:
  Bench()
      : scenario_(SixteenRanks()),
        parameters_(scenario_.config.model, scenario_.config.train.seed),
        batches_(scenario_.config.model, scenario_.config.train, Bytes()),
        mesh_(scenario_.config.parallel) {}

  // Returns whether the verdict was a pass.
  bool Run() {
    constexpr int kRuns = 5;
    bool pass = true;
    const Times verify = BestOf(kRuns, [&] { pass = pass && Verify(scenario_, inputs()).pass; });
    const Times reference = BestOf(kRuns, [&] {
      QuietSink sink;
      RunReference(scenario_.config.model, scenario_.config.train, DType::kF64, parameters_,
                   batches_, sink);
    });
    Times with;
    Times without;
    // Taken in turn, so that both see the same machine.
    for (int i = 0; i < 2 * kRuns; ++i) {
      const Times one = TimeOnce([&] { RunRanks(true); });
      const Times other = TimeOnce([&] { RunRanks(false); });
      with.processor = std::min(with.processor, one.processor);
      without.processor = std::min(without.processor, other.processor);
    }
    fmt::print(
        "verdict of 16 ranks: {:.3f} s wall, {:.3f} s processor; {:.2f} of the limit of 1 s\n",
        verify.wall, verify.processor, verify.wall / 1.0);
    fmt::print("of its processor time: reference {:.2f}, ranks {:.2f}, comparison {:.2f}\n",
               reference.processor / verify.processor, with.processor / verify.processor,
               1 - (reference.processor + with.processor) / verify.processor);
    fmt::print("steps with fingerprint to steps without: {:.3f} (limit 1.05)\n",
               with.processor / without.processor);
    return pass;
  }

 private:
  static std::vector<uint8_t> Bytes() {
    std::vector<uint8_t> bytes(4099);
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * i % 251);
    return bytes;
  }
  ScenarioInputs inputs() const { return {parameters_, batches_}; }
  void RunRanks(bool fingerprint) {
    Scenario scenario = scenario_;
    scenario.world.fingerprint = fingerprint;
    scenario.world.checksums = fingerprint;
    QuietProbe probe;
    RunObserver observer;
    observer.probe_of = [&](int) -> Probe& { return probe; };
    RunParallel(scenario, inputs(), mesh_, observer);
  }

  Scenario scenario_;
  SeededParameters parameters_;
  TextBatches batches_;
  Mesh mesh_;
};

}  // namespace
}  // namespace plumbline

int main() { return plumbline::Bench().Run() ? 0 : 1; }
