#include "scenarios/exact_bound.h"

#include <algorithm>
#include <cmath>

namespace plumbline {
namespace {

constexpr double kUninterpretedPerLayer = 4;
constexpr double kUninterpretedPerStep = 6;
// Products on the way through a layer, or through the loss and the optimizer.
constexpr double kProducts = 8;

}  // namespace

ExactDegrees DegreesOf(const RunConfig& config) {
  const TransformerConfig& model = config.model;
  const auto steps = static_cast<double>(config.train.steps);
  const auto layers = static_cast<double>(model.num_layers);
  const auto sequence = static_cast<double>(model.seq_length);
  const auto classes = static_cast<double>(std::max(model.vocab_size, model.padded_vocab_size));
  const double tokens = static_cast<double>(config.train.global_batch_size) * sequence;
  const double rows = tokens * static_cast<double>(model.num_attention_heads);
  ExactDegrees degrees;
  degrees.uninterpreted = steps * (layers * kUninterpretedPerLayer + kUninterpretedPerStep);
  const double attention = layers * rows * 2 * (sequence + kProducts);
  const double loss = tokens * 2 * (classes + kProducts);
  degrees.degree = steps * (attention + loss);
  return degrees;
}

double FalseEqualityBound(const RunConfig& config, uint64_t prime, int keys) {
  const ExactDegrees degrees = DegreesOf(config);
  const double one = (degrees.uninterpreted + degrees.degree) / static_cast<double>(prime);
  return std::pow(std::min(one, 1.0), keys);
}

}  // namespace plumbline
