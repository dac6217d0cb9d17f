#include "tests/parallel/model/directional_derivative.h"

#include <cmath>
#include <utility>

#include "base/batch.h"
#include "tests/parallel/tensor/module_world.h"

namespace plumbline {

double InnerProduct(const Tensor& a, const Tensor& b) {
  const std::vector<double> left = a.ToVector<double>();
  const std::vector<double> right = b.ToVector<double>();
  double sum = 0;
  for (size_t i = 0; i < left.size(); ++i) sum += left[i] * right[i];
  return sum;
}

void MoveAlong(Tensor& target, double factor, const Tensor& direction) {
  for (int64_t i = 0; i < target.elements(); ++i) {
    target.data<double>()[i] += factor * direction.data<double>()[i];
  }
}

double DerivativeError(Tensor& point, const Tensor& gradient, const std::function<double()>& value,
                       uint64_t seed) {
  const Tensor direction = Numbers(point.shape(), seed);
  const Tensor origin = point.Clone(Context{});
  const double h = 1e-3 / std::sqrt(InnerProduct(direction, direction));
  const auto at = [&](double distance) {
    point.CopyFrom(origin);
    MoveAlong(point, distance, direction);
    return value();
  };
  const double derivative = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
  point.CopyFrom(origin);
  return std::abs(InnerProduct(gradient, direction) - derivative) / std::abs(derivative);
}

Microbatch TestMicrobatch(const RunConfig& config, bool packed) {
  TrainConfig train = config.train;
  train.packed_documents = packed;
  std::vector<uint8_t> bytes;
  for (int i = 0; i < 997; ++i) bytes.push_back(static_cast<uint8_t>(i * i + 7 * i));
  const TextBatches batches(config.model, train, std::move(bytes));
  return MakeMicrobatch(Context{}, batches.Get(Context{}, 1, 0), DType::kF64, packed);
}

}  // namespace plumbline
