// Rotary position embedding by global position.
//
// Pairs are (i, i + R/2) of the first R = rotary channels (half-split), or (2i, 2i + 1)
// (interleaved); the rest passes. Shapes:   x [S, B, N, D], any strides; positions i64 [B, S].
// Numerics: bf16 and f16 rotate in f32, by cosines in f32, and are rounded once.
// Source:   Su et al. 2021; Megatron-Core rotary_pos_embedding.py; llama3 scaling as in Llama 3.1's
// published rule.
#ifndef PLUMBLINE_KERNELS_ROPE_H_
#define PLUMBLINE_KERNELS_ROPE_H_

#include <cstdint>
#include <vector>

#include "base/config.h"
#include "base/context.h"
#include "base/tensor.h"

namespace plumbline {

// Inverse frequency of each pair: base^(-2i/R), scaled as the configuration says.
std::vector<double> RotaryInverseFrequencies(const TransformerConfig& config);

Tensor RopeForward(const Context& context, const Tensor& x, const Tensor& positions,
                   const std::vector<double>& inverse_frequencies, bool interleaved);
// The transposed rotation.
Tensor RopeBackward(const Context& context, const Tensor& dy, const Tensor& positions,
                    const std::vector<double>& inverse_frequencies, bool interleaved);

}  // namespace plumbline

#endif  // PLUMBLINE_KERNELS_ROPE_H_
