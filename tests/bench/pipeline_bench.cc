// What a large pipeline costs beside its computations.
//
//   bazelw run //tests/bench:pipeline_bench
//
// pp 64, 256 microbatches: time to make a schedule and to simulate it, and the time of one
// operation of a step in which computations cost nothing, by how messages are waited for. The floor
// is the same messages on the communicator alone, without a schedule.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "base/mesh.h"
#include "parallel/comm/world.h"
#include "parallel/pipeline/executor.h"
#include "parallel/pipeline/schedule_builder.h"
#include "parallel/pipeline/simulate.h"

namespace plumbline {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kStages = 64;
constexpr int kMicrobatches = 256;
constexpr int kRepeats = 3;

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// The best of several.
template <class F>
double Best(F&& run) {
  double best = 1e9;
  for (int i = 0; i < kRepeats; ++i) {
    const Clock::time_point begin = Clock::now();
    run();
    best = std::min(best, SecondsSince(begin));
  }
  return best;
}

class Nothing : public StageWork {
 public:
  explicit Nothing(const Context& context)
      : hidden_(Tensor::Zeros(context, DType::kF64, {4, 2, 8})) {}
  Tensor Forward(int, int, const Tensor&) override { return hidden_; }
  Tensor Backward(int, int, const Tensor&) override { return hidden_; }
  Tensor BackwardInput(int, int, const Tensor&) override { return hidden_; }
  void BackwardWeight(int, int) override {}

 private:
  Tensor hidden_;
};

Site SiteOf(const Operation& message) {
  Site site;
  site.step = 1;
  site.microbatch = message.microbatch;
  site.tensor = "decoder.layers.7.mlp_bda";
  return site;
}

WorldOptions Options() {
  WorldOptions options;
  options.size = kStages;
  return options;
}

double StepSeconds(const Schedule& schedule, const Mesh& mesh, Transport transport) {
  World world(Options());
  return Best([&] {
    world.Run([&](Rank& rank) {
      Executor executor(rank.context(), rank.comm(), mesh.GroupOf("pp", rank.global_rank()),
                        schedule, rank.global_rank(),
                        {.transport = transport, .message_shape = {4, 2, 8}, .dtype = DType::kF64});
      Nothing work(rank.context());
      executor.Run(work, SiteOf);
    });
  });
}

// As many messages between neighbours, one after the other.
double MessageSeconds(const Mesh& mesh) {
  World world(Options());
  return Best([&] {
    world.Run([&](Rank& rank) {
      const int stage = rank.global_rank();
      const Group& group = mesh.GroupOf("pp", stage);
      Tensor hidden = Tensor::Zeros(rank.context(), DType::kF64, {4, 2, 8});
      for (int i = 0; i < kMicrobatches; ++i) {
        const Site site = SiteOf({.microbatch = i});
        if (stage > 0) rank.comm().Recv(hidden, stage - 1, i, group, site);
        if (stage + 1 < kStages) rank.comm().Send(hidden, stage + 1, i, group, site);
      }
      for (int i = 0; i < kMicrobatches; ++i) {
        const Site site = SiteOf({.microbatch = i});
        if (stage + 1 < kStages) rank.comm().Recv(hidden, stage + 1, i, group, site);
        if (stage > 0) rank.comm().Send(hidden, stage - 1, i, group, site);
      }
    });
  });
}

void Print() {
  ParallelConfig parallel;
  parallel.pp = kStages;
  const Mesh mesh(parallel);
  const double floor = MessageSeconds(mesh) / (2.0 * kMicrobatches * (kStages - 1));
  fmt::print("pp {}, {} microbatches; a message alone {:.2f} us\n", kStages, kMicrobatches,
             floor * 1e6);
  fmt::print("{:<12} {:>9} {:>9} {:>10} {:>12} {:>12} {:>8} {:>8}\n", "schedule", "make ms",
             "simul. ms", "operations", "rendezv. us", "eager us", "x floor", "x floor");
  for (const ScheduleKind kind : kAllScheduleKinds) {
    if (kind == ScheduleKind::kNaive) continue;  // its steps run one by one
    const ScheduleConfig config = {.kind = kind,
                                   .pp = kStages,
                                   .virtual_chunks = kind == ScheduleKind::kInterleaved ? 2 : 1,
                                   .microbatches = kMicrobatches};
    Schedule schedule;
    const double make = Best([&] { schedule = MakeSchedule(config); });
    const double simulate = Best([&] { Simulate(schedule, Costs{}); });
    size_t operations = 0;
    double of_messages = 0;
    for (const std::vector<Operation>& stage : schedule.stages) {
      operations += stage.size();
      for (const Operation& operation : stage) of_messages += IsSend(operation.kind) ? floor : 0;
    }
    const double rendezvous = StepSeconds(schedule, mesh, Transport::kRendezvous);
    const double eager = StepSeconds(schedule, mesh, Transport::kEager);
    const double microseconds = 1e6 / static_cast<double>(operations);
    fmt::print("{:<12} {:>9.1f} {:>9.1f} {:>10} {:>12.2f} {:>12.2f} {:>8.2f} {:>8.2f}\n",
               Name(kind), make * 1e3, simulate * 1e3, operations, rendezvous * microseconds,
               eager * microseconds, rendezvous / of_messages, eager / of_messages);
  }
}

}  // namespace
}  // namespace plumbline

int main() { plumbline::Print(); }
