#include "oracle/gradcheck.h"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <limits>

#include "base/rng.h"
#include "oracle/dual.h"
#include "oracle/field_traits.h"
#include "oracle/step.h"

namespace plumbline {
namespace {

template <class T>
Parameters<Dual<T>> Lift(const TransformerConfig& config, Parameters<T>& values) {
  const std::vector<ParameterSpec> specs = ParameterSpecs(config);
  Parameters<Dual<T>> lifted = ZeroParameters<Dual<T>>(config);
  const std::vector<Matrix<Dual<T>>*> to = ParameterMatrices(specs, lifted);
  const std::vector<Matrix<T>*> from = ParameterMatrices(specs, values);
  for (size_t i = 0; i < specs.size(); ++i) {
    for (Eigen::Index j = 0; j < from[i]->size(); ++j) to[i]->data()[j].value = from[i]->data()[j];
  }
  return lifted;
}

template <class T>
std::vector<T> Direction(const std::string& tensor, uint64_t seed, Eigen::Index size) {
  const RandomStream stream = DataStream(seed, "direction of " + tensor);
  std::vector<T> direction;
  for (Eigen::Index j = 0; j < size; ++j) {
    const auto index = static_cast<uint64_t>(j);
    if constexpr (kIsField<T>) {
      direction.push_back(ScalarTraits<T>::Any(FieldFunction::kInit, stream.Bits(index)));
    } else {
      direction.push_back(ScalarTraits<T>::FromDouble(stream.Normal(index)));
    }
  }
  return direction;
}

template <class T>
double RelativeError(const T& jvp, const T& dot, const Matrix<T>& gradient) {
  if constexpr (std::floating_point<T>) {
    const double scale = std::max<double>(std::abs(jvp), gradient.norm());
    const double difference = std::abs(jvp - dot);
    return difference == 0 ? 0 : difference / scale;
  } else {
    return jvp == dot ? 0 : std::numeric_limits<double>::infinity();
  }
}

}  // namespace

template <class T>
std::vector<GradientCheck<T>> CheckGradients(const TransformerConfig& model,
                                             const TrainConfig& train,
                                             const ParameterSource& parameters,
                                             const BatchSource& batches,
                                             const GradientCheckOptions<T>& options) {
  const std::vector<ParameterSpec> specs = ParameterSpecs(model);
  const StepData data = MakeStepData(model, train, batches, options.step);
  Parameters<T> values = LoadParameters<T>(model, parameters);
  Parameters<T> gradients = ZeroParameters<T>(model);
  Gpt<T> gpt(model);
  Recorder<T> nothing(nullptr);
  RunStep(gpt, data, values, &gradients, nothing);

  Gpt<Dual<T>> dual_gpt(model);
  Recorder<Dual<T>> dual_nothing(nullptr);
  Parameters<Dual<T>> lifted = Lift(model, values);
  const std::vector<Matrix<T>*> gradient = ParameterMatrices(specs, gradients);
  const std::vector<Matrix<Dual<T>>*> point = ParameterMatrices(specs, lifted);
  std::vector<GradientCheck<T>> checks;
  for (size_t i = 0; i < specs.size(); ++i) {
    const auto size = static_cast<size_t>(gradient[i]->size());
    if (options.edit) options.edit(specs[i].name, {gradient[i]->data(), size});
    GradientCheck<T> worst = {specs[i].name, {}, {}, -1};
    for (int64_t n = 0; n < options.directions; ++n) {
      const std::vector<T> v =
          Direction<T>(specs[i].name, options.seed + static_cast<uint64_t>(n), gradient[i]->size());
      T dot = ScalarTraits<T>::FromInt(0);
      for (size_t j = 0; j < size; ++j) {
        point[i]->data()[j].tangent = v[j];
        dot += gradient[i]->data()[j] * v[j];
      }
      const Dual<T> loss = RunStep<Dual<T>>(dual_gpt, data, lifted, nullptr, dual_nothing);
      const double error = RelativeError(loss.tangent, dot, *gradient[i]);
      if (!(error <= worst.error)) worst = {specs[i].name, loss.tangent, dot, error};
    }
    for (size_t j = 0; j < size; ++j) point[i]->data()[j].tangent = ScalarTraits<T>::FromInt(0);
    checks.push_back(worst);
  }
  return checks;
}

template std::vector<GradientCheck<double>> CheckGradients(const TransformerConfig&,
                                                           const TrainConfig&,
                                                           const ParameterSource&,
                                                           const BatchSource&,
                                                           const GradientCheckOptions<double>&);
template std::vector<GradientCheck<M61>> CheckGradients(const TransformerConfig&,
                                                        const TrainConfig&, const ParameterSource&,
                                                        const BatchSource&,
                                                        const GradientCheckOptions<M61>&);

}  // namespace plumbline
