#include "oracle/rope.h"

#include <cmath>
#include <numbers>

#include "base/error.h"

namespace plumbline {
namespace {

double ScaledLlama3(const TransformerConfig& config, double frequency) {
  const double original = static_cast<double>(config.rope_original_max_position);
  const double low = config.rope_low_freq_factor;
  const double high = config.rope_high_freq_factor;
  const double factor = config.rope_scaling_factor;
  const double wavelength = 2 * std::numbers::pi / frequency;
  if (wavelength < original / high) return frequency;
  if (wavelength > original / low) return frequency / factor;
  const double mix = (original / wavelength - low) / (high - low);
  return (1 - mix) * frequency / factor + mix * frequency;
}

}  // namespace

std::vector<double> InverseFrequencies(const TransformerConfig& config) {
  if (config.position_embedding != PositionEmbedding::kRope) return {};
  const int64_t channels = config.rotary_channels();
  if (channels < 2 || channels % 2 != 0 || channels > config.kv_channels) {
    throw InvalidArgument("rotary_percent {} of {} channels makes {}; expected an even number",
                          config.rotary_percent, config.kv_channels, channels);
  }
  std::vector<double> frequencies;
  for (int64_t i = 0; i < channels / 2; ++i) {
    const double exponent = 2 * static_cast<double>(i) / static_cast<double>(channels);
    double frequency = 1 / std::pow(config.rotary_base, exponent);
    if (config.rope_scaling == RopeScaling::kLinear) frequency /= config.rope_scaling_factor;
    if (config.rope_scaling == RopeScaling::kLlama3) frequency = ScaledLlama3(config, frequency);
    frequencies.push_back(frequency);
  }
  return frequencies;
}

}  // namespace plumbline
