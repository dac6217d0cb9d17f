#include "parallel/data/units.h"

#include <algorithm>
#include <cstddef>

namespace plumbline {

std::vector<Parameter*> ParametersOf(const std::vector<std::vector<Parameter*>>& units) {
  std::vector<Parameter*> parameters;
  for (const std::vector<Parameter*>& unit : units) {
    for (Parameter* parameter : unit) {
      const auto found = std::find(parameters.begin(), parameters.end(), parameter);
      if (found == parameters.end()) parameters.push_back(parameter);
    }
  }
  return parameters;
}

bool HoldsPoison(const Tensor& tensor) {
  constexpr auto kPoison = static_cast<std::byte>(Allocator::kPoisonByte);
  const Tensor flat = tensor.View({-1});
  const size_t size = SizeOf(flat.dtype());
  const std::byte* bytes = flat.raw();
  for (int64_t i = 0; i < flat.elements(); ++i, bytes += size) {
    if (std::all_of(bytes, bytes + size, [](std::byte b) { return b == kPoison; })) return true;
  }
  return false;
}

void CheckUsable(const RankEnv& env, const Pass& pass, const std::vector<Parameter*>& unit) {
  for (const Parameter* parameter : unit) {
    if (!HoldsPoison(parameter->value)) continue;
    Site site = parameter->At(pass.step, pass.phase, Quantity::kParameter);
    site.microbatch = pass.microbatch;
    site.chunk = pass.chunk;
    env.probe().ObserveFault(FindingClass::kPrematureUse, site,
                             "used before its bucket was gathered");
    return;
  }
}

}  // namespace plumbline
