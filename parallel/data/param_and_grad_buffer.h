// Contiguous memory for the main gradients of many parameters, and for their weights where those
// are gathered: the parameters' tensors become views of it.
//
// Errors:   InvalidArgument when the layout does not fit the parameters.
// Source:   Megatron-Core distributed/param_and_grad_buffer.py.
#ifndef PLUMBLINE_PARALLEL_DATA_PARAM_AND_GRAD_BUFFER_H_
#define PLUMBLINE_PARALLEL_DATA_PARAM_AND_GRAD_BUFFER_H_

#include <span>
#include <vector>

#include "parallel/data/buffer_layout.h"
#include "parallel/tensor/parameter.h"

namespace plumbline {

// What the layouts are made from. `parameters` in creation order.
std::vector<BufferParameter> BufferParametersOf(const RankEnv& env,
                                                std::span<Parameter* const> parameters);

class ParamAndGradBuffer {
 public:
  // `parameters` is the list that was laid out.
  ParamAndGradBuffer(const RankEnv& env, BufferLayout layout,
                     std::span<Parameter* const> parameters, bool holds_weights);

  const BufferLayout& layout() const { return layout_; }
  const Bucket& bucket(int i) const { return layout_.buckets[static_cast<size_t>(i)]; }
  Parameter& parameter(int i) const { return *parameters_[static_cast<size_t>(i)]; }
  bool holds_weights() const { return weights_.defined(); }
  Tensor Grads(const BufferRange& range) const { return grads_.Slice(0, range.begin, range.end); }
  Tensor Weights(const BufferRange& range) const {
    return weights_.Slice(0, range.begin, range.end);
  }
  void ZeroGrads() { grads_.FillZero(); }

 private:
  const BufferLayout layout_;
  const std::vector<Parameter*> parameters_;
  Tensor grads_;
  Tensor weights_;
};

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_DATA_PARAM_AND_GRAD_BUFFER_H_
