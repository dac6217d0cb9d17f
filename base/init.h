// Initial values of parameters, as a function of (seed, name, global index): a shard's values don't
// depend on the sharding.
#ifndef PLUMBLINE_BASE_INIT_H_
#define PLUMBLINE_BASE_INIT_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/config.h"
#include "base/logical_tensor.h"
#include "base/tensor.h"

namespace plumbline {

class ParameterSource {
 public:
  virtual ~ParameterSource() = default;
  // Fills `local` (contiguous, any scalar dtype) with the values at `global_index` (row-major in
  // the parameter's global shape; -1: padding, becomes 0).
  virtual void Fill(const std::string& name, const Shape& global_shape,
                    const std::vector<int64_t>& global_index, Tensor& local) const = 0;
  // The whole parameter.
  void FillWhole(const std::string& name, Tensor& global) const;
};

// Weights are normal with init_method_std (divided by sqrt(2 * num_layers) for linear_proj and
// linear_fc2, as Megatron scales them); norm weights are 1 + a normal, biases a normal, so that no
// mistake hides behind a 0 or a 1.
class SeededParameters : public ParameterSource {
 public:
  SeededParameters(const TransformerConfig& model, uint64_t seed) : model_(model), seed_(seed) {}
  void Fill(const std::string& name, const Shape& global_shape,
            const std::vector<int64_t>& global_index, Tensor& local) const override;

 private:
  TransformerConfig model_;
  uint64_t seed_;
};

// Given tensors, as from a golden file: f64, or of the field that they fill. Throws InvalidArgument
// when one is missing or has another shape.
class GivenParameters : public ParameterSource {
 public:
  explicit GivenParameters(std::map<std::string, Tensor> tensors) : tensors_(std::move(tensors)) {}
  void Fill(const std::string& name, const Shape& global_shape,
            const std::vector<int64_t>& global_index, Tensor& local) const override;

 private:
  std::map<std::string, Tensor> tensors_;
};

// Another source's values, rounded once to a narrower dtype: what a bf16 or fp16 run starts from,
// for a reference that computes in f64. `source` must outlive it.
class RoundedParameters : public ParameterSource {
 public:
  RoundedParameters(const ParameterSource& source, DType dtype) : source_(source), dtype_(dtype) {}
  void Fill(const std::string& name, const Shape& global_shape,
            const std::vector<int64_t>& global_index, Tensor& local) const override;

 private:
  const ParameterSource& source_;
  DType dtype_;
};

}  // namespace plumbline

#endif  // PLUMBLINE_BASE_INIT_H_
