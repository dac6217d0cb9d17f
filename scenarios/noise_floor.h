// How far a bf16 or fp16 run may be from the f64 reference: a multiple of how far a run on one rank
// is, which knows no parallelism.
//
// The floor of a site is the largest deviation (base/compare.h) there, over the microbatches of a
// step and over several one-rank runs that add up in different orders. A layout rounds a little
// more than one rank does: partial sums of a row-parallel layer, terms of a replicated gradient.
//
// Numerics: bounds are max(floor, minimum * unit) times the multiple, unit being the dtype's unit
//           roundoff: 2^-8 for bf16, 2^-11 for fp16. Weights at the start are those of the
//           reference, rounded alike: they must be equal. What the optimizer makes of gradients has
//           no floor but follows from the gradients' bounds (scenarios/update_bounds.h), beside a
//           bound of its own rounding: that of fp32 states, and the one rounding of a parameter.
#ifndef PLUMBLINE_SCENARIOS_NOISE_FLOOR_H_
#define PLUMBLINE_SCENARIOS_NOISE_FLOOR_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/config.h"
#include "base/context.h"
#include "base/dtype.h"
#include "base/site.h"

namespace plumbline {

// Of the one-rank runs: one chain, two that round the sums of as many blocks as there are
// tensor-parallel ranks, and one of blocks alone.
std::vector<SumOrder> NoiseOrders(int tp);

struct NoiseFloorOptions {
  std::vector<SumOrder> orders;  // of the one-rank runs; empty: NoiseOrders
  double multiple = 4;
  double minimum = 1;  // in units
};

class NoiseFloor {
 public:
  NoiseFloor(DType dtype, const NoiseFloorOptions& options)
      : dtype_(dtype), unit_(UnitRoundoff(dtype)), options_(options) {}

  // A one-rank run's deviation at a site.
  void Add(const Site& site, double deviation);

  double unit() const { return unit_; }
  const NoiseFloorOptions& options() const { return options_; }
  // 0 where no one-rank run was.
  double Of(const Site& site) const;
  double BoundOf(const Site& site) const;

 private:
  DType dtype_;
  double unit_;
  NoiseFloorOptions options_;
  std::unordered_map<Site, double, SiteHash> floors_;  // by site without its microbatch
};

// What the parallel program holds a site's tensor in.
DType StoredDType(const RunConfig& config, const Site& site);

}  // namespace plumbline

#endif  // PLUMBLINE_SCENARIOS_NOISE_FLOOR_H_
