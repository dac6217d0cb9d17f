// Cost of collectives of simulated ranks, as ratios within one run.
//
//   bazelw run //tests/bench:comm_bench
//
// The floor of an all_reduce is what no implementation can save: each input is read once and each
// output written once, which a copy of all inputs to as many outputs does.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "base/mesh.h"
#include "base/site.h"
#include "base/tensor.h"
#include "parallel/comm/world.h"

namespace plumbline {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kGroupSize = 8;

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

Group GroupOfEight(int global_rank) {
  Group group;
  group.name = "tp";
  group.members.resize(kGroupSize);
  std::iota(group.members.begin(), group.members.end(), global_rank / kGroupSize * kGroupSize);
  group.hash = HashOfMembers(group.members);
  return group;
}

Site LayerSite() {
  Site site;
  site.step = 1;
  site.microbatch = 0;
  site.tensor = "decoder.layers.2.mlp.linear_fc2";
  return site;
}

// Seconds of one all_reduce of 8 ranks, all of them together.
double AllReduceSeconds(int64_t bytes, int repeats, bool fingerprint) {
  WorldOptions options;
  options.size = kGroupSize;
  options.fingerprint = fingerprint;
  options.checksums = fingerprint;
  World world(options);
  Clock::time_point begin;
  double seconds = 0;
  world.Run([&](Rank& rank) {
    const Group group = GroupOfEight(rank.global_rank());
    const Site site = LayerSite();
    Tensor x = Tensor::Zeros(rank.context(), DType::kF32, {bytes / 4});
    rank.comm().AllReduce(x, ReduceOp::kSum, group, site);
    rank.comm().Barrier(group, site);
    if (begin == Clock::time_point()) begin = Clock::now();
    for (int i = 0; i < repeats; ++i) rank.comm().AllReduce(x, ReduceOp::kSum, group, site);
    rank.comm().Barrier(group, site);
    if (seconds == 0) seconds = SecondsSince(begin);
  });
  return seconds / repeats;
}

double FloorSeconds(int64_t bytes, int repeats) {
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
  for (int i = 0; i < kGroupSize; ++i) {
    inputs.push_back(Tensor::Zeros(Context(), DType::kF32, {bytes / 4}));
    outputs.push_back(Tensor::Zeros(Context(), DType::kF32, {bytes / 4}));
  }
  const Clock::time_point begin = Clock::now();
  for (int r = 0; r < repeats; ++r) {
    for (int i = 0; i < kGroupSize; ++i) {
      std::memcpy(outputs[i].raw(), inputs[i].raw(), static_cast<size_t>(bytes));
    }
  }
  return SecondsSince(begin) / repeats;
}

void BenchAllReduce(std::string_view name, int64_t bytes, int repeats, int rounds) {
  double plain = 1e9;
  double marked = 1e9;
  double least = 1e9;
  // They take turns, so that all see the same neighbours on the machine.
  for (int round = 0; round < rounds; ++round) {
    plain = std::min(plain, AllReduceSeconds(bytes, repeats, false));
    marked = std::min(marked, AllReduceSeconds(bytes, repeats, true));
    least = std::min(least, FloorSeconds(bytes, repeats));
  }
  fmt::print(
      "all_reduce 8 x {}: {:9.2f} us   with fingerprint {:9.2f} us   floor {:9.2f} us   ratios to "
      "the floor {:.2f}, {:.2f}\n",
      name, plain * 1e6, marked * 1e6, least * 1e6, plain / least, marked / least);
}

int64_t ResidentKilobytes() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.rfind("VmRSS:", 0) == 0) return std::stoll(line.substr(6));
  }
  return 0;
}

int64_t PeakKilobytes() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

struct Scale {
  double seconds = 0;             // start to end
  double per_rank_and_call = 0;   // of the collectives alone
  double kilobytes_per_idle = 0;  // resident, blocked in its first call
};

// `ranks` start, make 20 all_reduces of 1 KiB in groups of 8, and end.
Scale RunScale(int ranks) {
  constexpr int kCalls = 20;
  Scale scale;
  const int64_t before = ResidentKilobytes();
  const Clock::time_point begin = Clock::now();
  Clock::time_point started;
  int blocked = 0;
  double collectives = 0;
  {
    WorldOptions options;
    options.size = ranks;
    World world(options);
    world.Run([&](Rank& rank) {
      const Group group = GroupOfEight(rank.global_rank());
      const Site site = LayerSite();
      // The last rank finds all others started and idle.
      if (++blocked == ranks) {
        scale.kilobytes_per_idle =
            static_cast<double>(ResidentKilobytes() - before) / static_cast<double>(ranks);
        started = Clock::now();
      }
      rank.Yield();
      Tensor x = Tensor::Zeros(rank.context(), DType::kF32, {256});
      for (int i = 0; i < kCalls; ++i) rank.comm().AllReduce(x, ReduceOp::kSum, group, site);
      collectives = SecondsSince(started);
    });
  }
  scale.seconds = SecondsSince(begin);
  scale.per_rank_and_call = collectives / kCalls / ranks;
  return scale;
}

void BenchScale() {
  constexpr int kRounds = 5;
  double small = 1e9;
  for (int round = 0; round < 4 * kRounds; ++round) {
    small = std::min(small, RunScale(256).per_rank_and_call);
  }
  Scale large = RunScale(16384);
  const double idle = large.kilobytes_per_idle;
  for (int round = 1; round < kRounds; ++round) {
    const Scale again = RunScale(16384);
    if (again.per_rank_and_call < large.per_rank_and_call) large = again;
  }
  fmt::print("256 ranks: {:.0f} ns per rank and all_reduce of 1 KiB in groups of 8\n", small * 1e9);
  fmt::print(
      "16384 ranks: {:.0f} ns per rank and all_reduce, ratio {:.2f}; {:.2f} s from start to end; "
      "{:.1f} KiB resident per idle rank; peak {} MiB\n",
      large.per_rank_and_call * 1e9, large.per_rank_and_call / small, large.seconds, idle,
      PeakKilobytes() / 1024);
}

}  // namespace
}  // namespace plumbline

int main() {
  plumbline::BenchAllReduce("4 KiB", 4096, 2000, 10);
  plumbline::BenchAllReduce("4 MiB", int64_t{4} << 20, 10, 10);
  plumbline::BenchScale();
  return 0;
}
