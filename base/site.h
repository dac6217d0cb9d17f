// Where in a training step something happens.
#ifndef PLUMBLINE_BASE_SITE_H_
#define PLUMBLINE_BASE_SITE_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace plumbline {

enum class Phase : uint8_t {
  kInit,
  kForward,
  kRecompute,
  kBackward,
  kFinalize,
  kUnscale,
  kNorm,
  kStep,
  kGather,
  kSave,
  kLoad
};
enum class Quantity : uint8_t {
  kValue,
  kGradient,
  kMainGrad,
  kParameter,
  kMainParam,  // the master copy that the optimizer updates
  kExpAvg,
  kExpAvgSq,
  kCounter
};

std::string_view Name(Phase phase);        // "forward"
std::string_view Name(Quantity quantity);  // "value"

// Steps count from 1; layers from 0, globally; -1: does not apply.
// `microbatch` is the global, logical one: data-parallel rank r's i-th is i * dp + r, so that the
// single-rank reference has a microbatch of the same number with the same samples. `tensor` is
// Megatron-Core's name of a parameter ("decoder.layers.3.mlp.linear_fc1.weight") or of the module
// that produces an activation ("decoder.layers.3.mlp.linear_fc1"); see docs/sites.md.
struct Site {
  int32_t step = -1;
  int32_t microbatch = -1;
  int32_t chunk = -1;  // virtual pipeline chunk
  int32_t layer = -1;
  Phase phase = Phase::kForward;
  Quantity quantity = Quantity::kValue;
  std::string tensor;

  bool operator==(const Site&) const = default;
};

// "step 1 microbatch 0 forward decoder.layers.3.mlp.linear_fc1 value"
std::string ToString(const Site& site);

struct SiteHash {
  size_t operator()(const Site& site) const;
};

}  // namespace plumbline

#endif  // PLUMBLINE_BASE_SITE_H_
