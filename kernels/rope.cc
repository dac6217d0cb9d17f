#include "kernels/rope.h"

#include <cmath>
#include <numbers>

#include "base/dtype.h"
#include "base/scalar.h"
#include "kernels/host/common.h"
#include "kernels/host/in_f32.h"

namespace plumbline {
namespace {

// Llama 3.1: long waves are slowed by the factor, short ones kept, those between blended by where
// the number of turns in the original context lies between the two limits.
double ScaleLlama3(const TransformerConfig& config, double frequency) {
  const double original = static_cast<double>(config.rope_original_max_position);
  const double turns = original * frequency / (2 * std::numbers::pi);
  const double low = config.rope_low_freq_factor;
  const double high = config.rope_high_freq_factor;
  if (turns < low) return frequency / config.rope_scaling_factor;
  if (turns > high) return frequency;
  const double blend = (turns - low) / (high - low);
  return (1 - blend) * frequency / config.rope_scaling_factor + blend * frequency;
}

// The rotations of one (s, b), one per pair.
template <class T>
struct RotationTable {
  explicit RotationTable(const std::vector<double>& inverse_frequencies)
      : frequencies(inverse_frequencies), rotations(inverse_frequencies.size()) {}

  // Documents seldom differ between neighbours, so that the last position is often the next one
  // too.
  const Rotation<T>* At(int64_t next) {
    if (!known || next != position) {
      for (size_t i = 0; i < rotations.size(); ++i) {
        rotations[i] = ScalarTraits<T>::Rotary(next, static_cast<int64_t>(i), frequencies[i]);
      }
      known = true;
      position = next;
    }
    return rotations.data();
  }

  const std::vector<double>& frequencies;
  std::vector<Rotation<T>> rotations;
  bool known = false;
  int64_t position = 0;
};

// The two channels of pair i.
struct PairLayout {
  int64_t step;      // from pair to pair
  int64_t distance;  // within a pair
};

template <class T>
void RotateHead(const T* x, T* y, int64_t channels, const PairLayout& layout,
                const Rotation<T>* rotations, int64_t pairs, bool transposed) {
  for (int64_t i = 0; i < pairs; ++i) {
    const int64_t first = i * layout.step;
    const int64_t second = first + layout.distance;
    const T a = x[first];
    const T b = x[second];
    const T cos = rotations[i].cos;
    const T sin = rotations[i].sin;
    if (transposed) {
      y[first] = a * cos + b * sin;
      y[second] = b * cos - a * sin;
    } else {
      y[first] = a * cos - b * sin;
      y[second] = b * cos + a * sin;
    }
  }
  for (int64_t i = 2 * pairs; i < channels; ++i) y[i] = x[i];
}

template <class T>
Tensor Rotate(const Context& context, const Tensor& x, const Tensor& positions,
              const std::vector<double>& inverse_frequencies, bool interleaved, bool transposed) {
  const int64_t pairs = static_cast<int64_t>(inverse_frequencies.size());
  const PairLayout layout = interleaved ? PairLayout{2, 1} : PairLayout{1, pairs};
  const int64_t batch = x.dim(1);
  const int64_t heads = x.dim(2);
  const int64_t channels = x.dim(3);
  Tensor result = Tensor::Empty(context, x.dtype(), x.shape());
  RotationTable<T> table(inverse_frequencies);
  const int64_t* position = positions.data<int64_t>();
  // The loops over channels want them adjacent.
  const Tensor adjacent = x.strides()[3] == 1 ? x : x.Contiguous(context);
  const std::vector<int64_t>& strides = adjacent.strides();
  T* out = result.data<T>();
  for (int64_t s = 0; s < x.dim(0); ++s) {
    for (int64_t b = 0; b < batch; ++b) {
      const Rotation<T>* rotations =
          table.At(position[b * positions.strides()[0] + s * positions.strides()[1]]);
      for (int64_t head = 0; head < heads; ++head) {
        const T* in = adjacent.data<T>() + s * strides[0] + b * strides[1] + head * strides[2];
        RotateHead(in, out, channels, layout, rotations, pairs, transposed);
        out += channels;
      }
    }
  }
  return result;
}

Tensor CheckAndRotate(std::string_view op, const Context& context, const Tensor& x,
                      const Tensor& positions, const std::vector<double>& inverse_frequencies,
                      bool interleaved, bool transposed) {
  host::CheckDims(op, "x", x, 4);
  host::CheckIndices(op, "positions", positions);
  host::CheckShape(op, "positions", positions, {x.dim(1), x.dim(0)});
  if (2 * static_cast<int64_t>(inverse_frequencies.size()) > x.dim(3)) {
    throw InvalidArgument("{}: {} pairs of channels in heads of {}", op, inverse_frequencies.size(),
                          x.dim(3));
  }
  if (const host::InF32 f32(context, x.dtype()); f32.needed()) {
    return f32.Round(Rotate<float>(f32.context(), f32.Widen(x), positions, inverse_frequencies,
                                   interleaved, transposed));
  }
  return DispatchScalar(x.dtype(), [&]<class T>() {
    return Rotate<T>(context, x, positions, inverse_frequencies, interleaved, transposed);
  });
}

}  // namespace

std::vector<double> RotaryInverseFrequencies(const TransformerConfig& config) {
  const int64_t channels = config.rotary_channels();
  std::vector<double> result;
  for (int64_t i = 0; i + 1 < channels; i += 2) {
    const double exponent = -static_cast<double>(i) / static_cast<double>(channels);
    double frequency = std::pow(config.rotary_base, exponent);
    switch (config.rope_scaling) {
      case RopeScaling::kNone:
        break;
      case RopeScaling::kLinear:
        frequency /= config.rope_scaling_factor;
        break;
      case RopeScaling::kLlama3:
        frequency = ScaleLlama3(config, frequency);
        break;
    }
    result.push_back(frequency);
  }
  return result;
}

Tensor RopeForward(const Context& context, const Tensor& x, const Tensor& positions,
                   const std::vector<double>& inverse_frequencies, bool interleaved) {
  return CheckAndRotate("rope", context, x, positions, inverse_frequencies, interleaved, false);
}

Tensor RopeBackward(const Context& context, const Tensor& dy, const Tensor& positions,
                    const std::vector<double>& inverse_frequencies, bool interleaved) {
  return CheckAndRotate("rope backward", context, dy, positions, inverse_frequencies, interleaved,
                        true);
}

}  // namespace plumbline
