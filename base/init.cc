#include "base/init.h"

#include <cmath>
#include <numeric>
#include <string_view>

#include "base/error.h"
#include "base/field.h"
#include "base/rng.h"
#include "base/scalar.h"

namespace plumbline {
namespace {

// value = mean + deviation * normal.
struct Distribution {
  double mean;
  double deviation;
};

Distribution DistributionOf(const TransformerConfig& model, std::string_view name) {
  const bool norm = name.find("layernorm") != std::string_view::npos ||
                    name.find("layer_norm") != std::string_view::npos;
  const bool bias = name.ends_with("bias");
  if (norm && !bias) return {1, 0.1};
  const bool into_residual =
      name.ends_with("linear_proj.weight") || name.ends_with("linear_fc2.weight");
  if (into_residual) {
    return {0, model.init_method_std / std::sqrt(2.0 * static_cast<double>(model.num_layers))};
  }
  return {0, model.init_method_std};
}

void CheckPiece(const std::string& name, const Shape& global_shape,
                const std::vector<int64_t>& global_index, const Tensor& local) {
  PL_CHECK(local.contiguous());
  PL_CHECK(local.elements() == static_cast<int64_t>(global_index.size()));
  const int64_t elements = ElementsOf(global_shape);
  for (int64_t index : global_index) {
    if (index >= elements) {
      throw Internal("{}: global index {} of {} elements", name, index, elements);
    }
  }
}

// Exact mode: every value, norm weights and biases too, is uniform in the field.
void FillUniform(const RandomStream& stream, const std::vector<int64_t>& global_index,
                 Tensor& local) {
  DispatchScalar(local.dtype(), [&]<class T>() {
    if constexpr (kIsField<T>) {
      T* values = local.data<T>();
      for (size_t i = 0; i < global_index.size(); ++i) {
        const int64_t index = global_index[i];
        values[i] = index < 0 ? T{0}
                              : ScalarTraits<T>::Any(FieldFunction::kInit,
                                                     stream.Bits(static_cast<uint64_t>(index)));
      }
    }
  });
}

void CopyResidues(const Tensor& given, const std::vector<int64_t>& global_index, Tensor& local) {
  DispatchScalar(local.dtype(), [&]<class T>() {
    const T* from = given.data<T>();
    T* values = local.data<T>();
    for (size_t i = 0; i < global_index.size(); ++i) {
      values[i] = global_index[i] < 0 ? T{} : from[global_index[i]];
    }
  });
}

}  // namespace

void ParameterSource::FillWhole(const std::string& name, Tensor& global) const {
  std::vector<int64_t> everything(static_cast<size_t>(global.elements()));
  std::iota(everything.begin(), everything.end(), 0);
  Fill(name, global.shape(), everything, global);
}

void SeededParameters::Fill(const std::string& name, const Shape& global_shape,
                            const std::vector<int64_t>& global_index, Tensor& local) const {
  CheckPiece(name, global_shape, global_index, local);
  const RandomStream stream = InitStream(seed_, name);
  if (IsExact(local.dtype())) return FillUniform(stream, global_index, local);
  const Distribution distribution = DistributionOf(model_, name);
  // Padding draws too, at an index that no element has, and is then set to 0.
  const std::vector<uint64_t> indices(global_index.begin(), global_index.end());
  std::vector<double> normals(indices.size());
  stream.FillNormal(indices, normals);
  DispatchReal(local.dtype(), [&]<class T>() {
    T* values = local.data<T>();
    for (size_t i = 0; i < normals.size(); ++i) {
      values[i] = static_cast<T>(
          global_index[i] < 0 ? 0 : distribution.mean + distribution.deviation * normals[i]);
    }
  });
}

void GivenParameters::Fill(const std::string& name, const Shape& global_shape,
                           const std::vector<int64_t>& global_index, Tensor& local) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) throw InvalidArgument("parameter {} is not given", name);
  if (found->second.shape() != global_shape) {
    throw InvalidArgument("parameter {} is given as {}, expected {}", name,
                          ToString(found->second.shape()), ToString(global_shape));
  }
  CheckPiece(name, global_shape, global_index, local);
  const Tensor given = found->second.Contiguous(Context{});
  if (IsExact(given.dtype())) return CopyResidues(given, global_index, local);
  const double* from = given.data<double>();
  const auto value = [&](size_t i) { return global_index[i] < 0 ? 0 : from[global_index[i]]; };
  if (IsExact(local.dtype())) {
    return DispatchScalar(local.dtype(), [&]<class T>() {
      T* values = local.data<T>();
      for (size_t i = 0; i < global_index.size(); ++i) {
        values[i] = ScalarTraits<T>::FromDouble(value(i));
      }
    });
  }
  DispatchReal(local.dtype(), [&]<class T>() {
    T* values = local.data<T>();
    for (size_t i = 0; i < global_index.size(); ++i) values[i] = static_cast<T>(value(i));
  });
}

void RoundedParameters::Fill(const std::string& name, const Shape& global_shape,
                             const std::vector<int64_t>& global_index, Tensor& local) const {
  source_.Fill(name, global_shape, global_index, local);
  PL_CHECK(!IsExact(local.dtype()));
  DispatchReal(dtype_, [&]<class Rounded>() {
    DispatchReal(local.dtype(), [&]<class T>() {
      T* values = local.data<T>();
      for (int64_t i = 0; i < local.elements(); ++i) {
        const Rounded rounded(static_cast<double>(values[i]));
        values[i] = static_cast<T>(static_cast<double>(rounded));
      }
    });
  });
}

}  // namespace plumbline
