#include "base/site.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <array>
#include <iterator>

#include "base/error.h"

namespace plumbline {
namespace {

constexpr std::array<std::string_view, 11> kPhases = {
    "init", "forward", "recompute", "backward", "finalize", "unscale",
    "norm", "step",    "gather",    "save",     "load"};
constexpr std::array<std::string_view, 8> kQuantities = {"value",      "gradient",   "main_grad",
                                                         "parameter",  "main_param", "exp_avg",
                                                         "exp_avg_sq", "counter"};

}  // namespace

std::string_view Name(Phase phase) {
  PL_CHECK(static_cast<size_t>(phase) < kPhases.size());
  return kPhases[static_cast<size_t>(phase)];
}

std::string_view Name(Quantity quantity) {
  PL_CHECK(static_cast<size_t>(quantity) < kQuantities.size());
  return kQuantities[static_cast<size_t>(quantity)];
}

std::string ToString(const Site& site) {
  fmt::memory_buffer text;
  auto out = std::back_inserter(text);
  if (site.step >= 0) fmt::format_to(out, "step {} ", site.step);
  if (site.microbatch >= 0) fmt::format_to(out, "microbatch {} ", site.microbatch);
  if (site.chunk >= 0) fmt::format_to(out, "chunk {} ", site.chunk);
  // A tensor's full name already tells its layer.
  if (site.layer >= 0 && site.tensor.find("layers.") == std::string::npos) {
    fmt::format_to(out, "layer {} ", site.layer);
  }
  fmt::format_to(out, "{} ", Name(site.phase));
  if (!site.tensor.empty()) fmt::format_to(out, "{} ", site.tensor);
  fmt::format_to(out, "{}", Name(site.quantity));
  return fmt::to_string(text);
}

size_t SiteHash::operator()(const Site& site) const {
  const std::array<int32_t, 6> numbers = {site.step,
                                          site.microbatch,
                                          site.chunk,
                                          site.layer,
                                          static_cast<int32_t>(site.phase),
                                          static_cast<int32_t>(site.quantity)};
  const uint64_t of_numbers = XXH3_64bits(numbers.data(), sizeof(numbers));
  return XXH3_64bits_withSeed(site.tensor.data(), site.tensor.size(), of_numbers);
}

}  // namespace plumbline
