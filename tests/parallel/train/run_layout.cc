#include "tests/parallel/train/run_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "base/batch.h"
#include "base/error.h"
#include "kernels/elementwise.h"
#include "parallel/train/train.h"

namespace plumbline {
namespace {

// A site while its pieces come in.
struct Pieces {
  ShownTensor tensor;
  std::vector<bool> covered;
  bool partial = false;
};

bool SameBits(double a, double b) { return std::memcmp(&a, &b, sizeof(a)) == 0; }

class Collector {
 public:
  // The chunk says where a tensor was computed, not which it is.
  void Add(int rank, Site site, const ObservedLayout& layout, const Tensor& local) {
    site.chunk = -1;
    const std::string name = ToString(site);
    Pieces& pieces = pieces_[name];
    if (pieces.covered.empty()) {
      const size_t elements = static_cast<size_t>(ElementsOf(layout.tensor.global_shape));
      pieces.tensor = {site, layout.tensor.global_shape, std::vector<double>(elements, 0)};
      pieces.covered.assign(elements, false);
      pieces.partial = IsPartialOver(layout.tensor, "tp");
    }
    if (layout.tensor.name != site.tensor) complaints_.push_back(name + ": named otherwise");
    const std::vector<double> values = Cast(Context{}, local, DType::kF64).ToVector<double>();
    for (size_t i = 0; i < values.size(); ++i) {
      const int64_t index = layout.piece.global_index[i];
      if (index >= 0) Put(rank, name, index, values[i], pieces);
    }
  }
  void AddCounter(const Site& site, int64_t value) {
    const auto [found, inserted] = counters_.emplace(ToString(site), value);
    if (!inserted && found->second != value) complaints_.push_back(ToString(site) + ": differs");
  }
  LayoutRun Result() {
    LayoutRun run;
    for (auto& [name, pieces] : pieces_) {
      if (std::count(pieces.covered.begin(), pieces.covered.end(), false) > 0) {
        complaints_.push_back(name + ": has holes");
      }
      run.tensors.emplace(name, std::move(pieces.tensor));
    }
    run.counters = std::move(counters_);
    run.complaints = std::move(complaints_);
    return run;
  }

 private:
  void Put(int rank, const std::string& name, int64_t index, double value, Pieces& pieces) {
    double& place = pieces.tensor.values[static_cast<size_t>(index)];
    if (pieces.partial) {
      place += value;
    } else if (!pieces.covered[static_cast<size_t>(index)]) {
      place = value;
    } else if (!SameBits(place, value)) {
      complaints_.push_back(fmt::format("{} rank {}: element {} is {}, a copy is {}", name, rank,
                                        index, value, place));
    }
    pieces.covered[static_cast<size_t>(index)] = true;
  }

  std::map<std::string, Pieces> pieces_;
  std::map<std::string, int64_t> counters_;
  std::vector<std::string> complaints_;
};

class RankProbe : public Probe {
 public:
  RankProbe(Collector& collector, int rank) : collector_(collector), rank_(rank) {}
  void Observe(const Site& site, const ObservedLayout& layout, const Tensor& local) override {
    collector_.Add(rank_, site, layout, local);
  }
  void ObserveCounter(const Site& site, int64_t value) override {
    collector_.AddCounter(site, value);
  }

 private:
  Collector& collector_;
  int rank_;
};

// Bytes that look like text: no short period, all of the vocabulary.
std::vector<uint8_t> Text() {
  std::vector<uint8_t> bytes;
  uint32_t state = 12345;
  for (int i = 0; i < 4001; ++i) {
    state = state * 1664525u + 1013904223u;
    bytes.push_back(static_cast<uint8_t>(state >> 24));
  }
  return bytes;
}

}  // namespace

const std::vector<double>& LayoutRun::At(const std::string& site) const {
  const auto found = tensors.find(site);
  if (found == tensors.end()) throw InvalidArgument("nothing was shown at {}", site);
  return found->second.values;
}

LayoutRun RunLayout(const RunConfig& config) {
  static const LayoutOptions options;
  return RunLayout(config, options);
}

LayoutRun RunLayout(const RunConfig& config, const LayoutOptions& options) {
  const Mesh mesh(config.parallel);
  const SeededParameters seeded(config.model, config.train.seed);
  const TextBatches batches(config.model, config.train, Text());
  const TrainInputs inputs = {config, mesh, options.parameters ? *options.parameters : seeded,
                              batches, options.policies};
  Collector collector;
  World world(WorldOptions{
      .size = mesh.world_size(), .policy = options.schedule, .seed = options.schedule_seed});
  const WorldResult result = world.Run([&](Rank& rank) {
    RankProbe probe(collector, rank.global_rank());
    TrainOnRank(rank, rank.comm(), inputs, probe);
  });
  LayoutRun run = collector.Result();
  for (const Finding& finding : result.findings) run.complaints.push_back(finding.message);
  if (!result.completed) run.complaints.push_back("the world stopped");
  run.collectives = static_cast<int64_t>(result.records.size());
  return run;
}

double GradientFactor(const RunConfig& config) {
  return config.train.calculate_per_token_loss ? 1 : 1.0 / config.parallel.dp;
}

double DeviationOf(const std::vector<double>& actual, const std::vector<double>& reference) {
  if (actual.size() != reference.size()) return INFINITY;
  double difference = 0;
  double scale = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double d = std::abs(actual[i] - reference[i]);
    if (!(d <= difference)) difference = d;
    if (std::isnan(d)) return INFINITY;
    scale = std::max(scale, std::abs(reference[i]));
  }
  return difference == 0 ? 0 : difference / scale;
}

std::string Differences(const LayoutRun& run, const RunConfig& config, const LayoutRun& reference,
                        const RunConfig& reference_config, double bound) {
  std::string text;
  int count = 0;
  const auto add = [&](const std::string& line) {
    if (++count <= 5) text += line + "\n";
  };
  if (run.tensors.size() != reference.tensors.size()) {
    add(fmt::format("{} tensors, the reference has {}", run.tensors.size(),
                    reference.tensors.size()));
  }
  for (const auto& [name, expected] : reference.tensors) {
    const auto found = run.tensors.find(name);
    if (found == run.tensors.end()) {
      add(name + ": missing");
      continue;
    }
    std::vector<double> actual = found->second.values;
    if (expected.site.quantity == Quantity::kGradient) {
      const double factor = GradientFactor(config) / GradientFactor(reference_config);
      for (double& value : actual) value *= factor;
    }
    const double deviation = DeviationOf(actual, expected.values);
    if (!(deviation <= bound)) add(fmt::format("{}: deviation {}", name, deviation));
  }
  return text;
}

}  // namespace plumbline
