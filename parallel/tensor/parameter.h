// A rank's piece of a parameter: its value, its main gradient, and what the reductions and the
// optimizer have to know about it.
//
// Source:   Megatron-Core tensor_parallel/layers.py (tensor_model_parallel and sequence_parallel
//           attributes), distributed/param_and_grad_buffer.py (main_grad).
#ifndef PLUMBLINE_PARALLEL_TENSOR_PARAMETER_H_
#define PLUMBLINE_PARALLEL_TENSOR_PARAMETER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/mesh.h"
#include "base/probe.h"
#include "base/site.h"
#include "base/tensor.h"
#include "parallel/tensor/pass.h"
#include "parallel/tensor/rank_env.h"

namespace plumbline {

// How a dimension is cut over tp; the same cut along axis 0 of a weight, axis 0 of its bias and the
// last axis of the activation that it makes.
using CutAlong = std::function<AxisPlacement(int64_t axis)>;
CutAlong BlockCut();
CutAlong SegmentsCut(int64_t segments);
CutAlong PaddedBlockCut();

// Leading rows are this rank's own; rows from `first_row` on are copies that all members of `group`
// hold, each with its own term of their gradient.
struct ReplicatedRows {
  Group group;
  int64_t first_row = 0;
};

struct Parameter;

// Takes a microbatch's gradient of a parameter, fresh from the backward, in place of main_grad.
class GradientSink {
 public:
  virtual ~GradientSink() = default;
  virtual void Add(Parameter& parameter, const Pass& pass, const Tensor& gradient) = 0;
};

// Of a flattened piece of a parameter the elements whose complete gradient, master weight and
// moments are this rank's, where data-parallel ranks share them out.
struct OwnedPart {
  int64_t begin = 0;
  int64_t end = 0;
  ObservedLayout layout;
  Tensor value;      // [end - begin]
  Tensor main_grad;  // [end - begin]
};

struct Parameter {
  ObservedLayout layout;
  int32_t layer = -1;
  Tensor value;
  Tensor main_grad;
  // Cut over tp: each rank's elements are its own and count in the gradient norm.
  bool tensor_parallel = false;
  // Replicated over tp, but each rank saw only its part of the sequence: its gradient is a term.
  bool sequence_parallel = false;
  bool weight_decay = false;
  // The word table of a model with tied embeddings. Where first and last pipeline stage are not
  // one, each holds it, with its own term of the gradient, and the last stage's is the copy.
  bool tied_embedding = false;
  bool tied_copy = false;
  std::optional<ReplicatedRows> replicated_rows;
  // How often a backward adds to it: twice where one stage both embeds and unembeds with it.
  int gradients_per_microbatch = 1;
  GradientSink* sink = nullptr;    // nullptr: main_grad takes gradients itself
  std::optional<OwnedPart> owned;  // without: the whole piece

  const std::string& name() const { return layout.tensor.name; }
  void AddGradient(const RankEnv& env, const Pass& pass, const Tensor& gradient);
  // main_grad += gradient, shown to the probe.
  void Accumulate(const RankEnv& env, const Pass& pass, const Tensor& gradient);

  // What this rank has of the complete gradient, and of what the optimizer updates.
  const Tensor& owned_grad() const { return owned ? owned->main_grad : main_grad; }
  const Tensor& owned_value() const { return owned ? owned->value : value; }
  const ObservedLayout& owned_layout() const { return owned ? owned->layout : layout; }
  // Of owned_grad, flattened, what lies in rows of the piece from `row` on; or before it.
  Tensor OwnedGradFrom(int64_t row) const;
  Tensor OwnedGradBefore(int64_t row) const;
  // What of owned_grad this rank counts in the gradient norm; undefined: none.
  Tensor CountedGradient(const RankEnv& env) const;
  Site At(int64_t step, Phase phase, Quantity quantity) const;
};

// A parameter with initial values by global index, padding 0, and a zero main_grad. One that no
// placement cuts is replicated. Weight decay: two dimensions.
Parameter MakeParameter(const RankEnv& env, int32_t layer, std::string name, Shape global_shape,
                        std::vector<AxisPlacement> placements);

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_TENSOR_PARAMETER_H_
