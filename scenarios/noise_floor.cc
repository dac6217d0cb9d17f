#include "scenarios/noise_floor.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace plumbline {
namespace {

// Roundings of fp32 in an update, generously: Adam makes ten of an element, each step.
constexpr double kUpdateRoundings = 64;

// The layer is in the tensor's name, and the chunk depends on the layout.
Site KeyOf(const Site& site) {
  Site key = site;
  key.microbatch = -1;
  key.layer = -1;
  key.chunk = -1;
  return key;
}

}  // namespace

std::vector<SumOrder> NoiseOrders(int tp) {
  return {{1, false, false},
          {std::max(tp, 2), false, true},
          {std::max(tp, 3), true, true},
          {4, true, false}};
}

void NoiseFloor::Add(const Site& site, double deviation) {
  double& floor = floors_[KeyOf(site)];
  // What is not finite on one rank bounds nothing: a NaN stays, and admits nothing.
  if (!std::isfinite(deviation)) floor = std::numeric_limits<double>::quiet_NaN();
  if (deviation > floor) floor = deviation;
}

double NoiseFloor::Of(const Site& site) const {
  const auto found = floors_.find(KeyOf(site));
  return found == floors_.end() ? 0 : found->second;
}

double NoiseFloor::BoundOf(const Site& site) const {
  const double update = kUpdateRoundings * UnitRoundoff(ComputeDType(dtype_));
  switch (site.quantity) {
    case Quantity::kMainParam:
    case Quantity::kExpAvg:
    case Quantity::kExpAvgSq:
      return update;
    case Quantity::kParameter:
      return site.phase == Phase::kInit ? 0 : unit_ + update;
    case Quantity::kCounter:
      return 0;
    case Quantity::kValue:
    case Quantity::kGradient:
    case Quantity::kMainGrad:
      break;
  }
  return options_.multiple * std::max(Of(site), options_.minimum * unit_);
}

DType StoredDType(const RunConfig& config, const Site& site) {
  switch (site.quantity) {
    case Quantity::kMainGrad:
      return config.grad_dtype();
    case Quantity::kMainParam:
    case Quantity::kExpAvg:
    case Quantity::kExpAvgSq:
      return config.main_dtype();
    case Quantity::kValue:
      break;
    default:
      return config.dtype;
  }
  // Losses, and from them on all that is one number.
  const bool loss = site.tensor == "loss_per_token" || site.tensor == "loss";
  return loss || site.phase != Phase::kForward ? config.main_dtype() : config.dtype;
}

}  // namespace plumbline
