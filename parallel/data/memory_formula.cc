#include "parallel/data/memory_formula.h"

#include <fmt/format.h>

#include "base/dtype.h"
#include "base/error.h"

namespace plumbline {
namespace {

struct Sums {
  int64_t whole = 0;
  int64_t sharded = 0;
};

Sums SumsOf(const std::vector<StateBytes>& states) {
  Sums sums;
  for (const StateBytes& state : states) {
    (state.sharded ? sums.sharded : sums.whole) += state.bytes;
  }
  return sums;
}

int64_t Moments(const TrainConfig& train) {
  if (train.optimizer == OptimizerKind::kAdam) return 2;
  return train.sgd_momentum != 0 ? 1 : 0;
}

}  // namespace

std::string_view Name(MemoryState state) {
  switch (state) {
    case MemoryState::kWeights:
      return "weights";
    case MemoryState::kMainGrads:
      return "main gradients";
    case MemoryState::kGradCopies:
      return "gradient copies";
    case MemoryState::kMasters:
      return "master weights";
    case MemoryState::kMoments:
      return "moments";
  }
  throw Internal("a memory state of value {}", static_cast<int>(state));
}

std::vector<StateBytes> MemoryFormula(const RunConfig& config) {
  const auto size = [](DType dtype) { return static_cast<int64_t>(SizeOf(dtype)); };
  const ShardingStrategy strategy = config.parallel.data.sharding_strategy;
  const int64_t main = size(config.main_dtype());
  const bool optim = strategy >= ShardingStrategy::kOptim;
  std::vector<StateBytes> states = {
      {MemoryState::kWeights, size(config.dtype), strategy == ShardingStrategy::kOptimGradsParams},
      {MemoryState::kMainGrads, size(config.grad_dtype()),
       strategy >= ShardingStrategy::kOptimGrads}};
  if (config.grad_dtype() != config.main_dtype()) {
    states.push_back({MemoryState::kGradCopies, main, optim});
  }
  if (config.dtype != config.main_dtype()) states.push_back({MemoryState::kMasters, main, optim});
  const int64_t moments = Moments(config.train);
  if (moments > 0) states.push_back({MemoryState::kMoments, moments * main, optim});
  return states;
}

std::string FormulaText(const std::vector<StateBytes>& states) {
  const Sums sums = SumsOf(states);
  if (sums.sharded == 0) return fmt::format("{}", sums.whole);
  if (sums.whole == 0) return fmt::format("{}/d", sums.sharded);
  return fmt::format("{} + {}/d", sums.whole, sums.sharded);
}

double FormulaBytes(const std::vector<StateBytes>& states, int64_t elements, int d) {
  const Sums sums = SumsOf(states);
  return static_cast<double>(elements) *
         (static_cast<double>(sums.whole) + static_cast<double>(sums.sharded) / d);
}

}  // namespace plumbline
