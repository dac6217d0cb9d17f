#include "parallel/tensor/parameter.h"

#include <algorithm>
#include <utility>

#include "kernels/elementwise.h"
#include "parallel/tensor/tap.h"

namespace plumbline {

CutAlong BlockCut() {
  return [](int64_t axis) { return Sharded("tp", {ShardStep::Block(axis)}); };
}

CutAlong SegmentsCut(int64_t segments) {
  return [segments](int64_t axis) { return Sharded("tp", {ShardStep::Segments(axis, segments)}); };
}

CutAlong PaddedBlockCut() {
  return [](int64_t axis) { return Sharded("tp", {ShardStep::PaddedBlock(axis)}); };
}

void Parameter::AddGradient(const RankEnv& env, const Pass& pass, const Tensor& gradient) {
  if (sink != nullptr) {
    sink->Add(*this, pass, gradient);
  } else {
    Accumulate(env, pass, gradient);
  }
}

void Parameter::Accumulate(const RankEnv& env, const Pass& pass, const Tensor& gradient) {
  AddInto(env.context(), main_grad, gradient);
  Site site = At(pass.step, Phase::kBackward, Quantity::kMainGrad);
  site.microbatch = pass.microbatch;
  site.chunk = pass.chunk;
  env.probe().ObserveAccumulation(site, gradient, main_grad);
}

// Rows are the first axis, so that they are a range of the flattened piece.
Tensor Parameter::OwnedGradFrom(int64_t row) const {
  const Shape& shape = layout.piece.local_shape;
  const Tensor flat = owned_grad().View({-1});
  const int64_t begin = owned ? owned->begin : 0;
  const int64_t cut = row * (ElementsOf(shape) / shape[0]) - begin;
  return flat.Slice(0, std::clamp<int64_t>(cut, 0, flat.elements()), flat.elements());
}

Tensor Parameter::OwnedGradBefore(int64_t row) const {
  const Tensor flat = owned_grad().View({-1});
  return flat.Slice(0, 0, flat.elements() - OwnedGradFrom(row).elements());
}

Tensor Parameter::CountedGradient(const RankEnv& env) const {
  if (!env.policies().grad_norm.counts(name(), tensor_parallel, env.tp_rank())) return {};
  if (tied_copy && !env.policies().tied_embedding.counts_copy) return {};
  const bool first_copy =
      !replicated_rows || replicated_rows->group.IndexOf(env.global_rank()) == 0;
  return first_copy ? owned_grad() : OwnedGradBefore(replicated_rows->first_row);
}

Site Parameter::At(int64_t step, Phase phase, Quantity quantity) const {
  Site site;
  site.step = static_cast<int32_t>(step);
  site.layer = layer;
  site.phase = phase;
  site.quantity = quantity;
  site.tensor = name();
  return site;
}

Parameter MakeParameter(const RankEnv& env, int32_t layer, std::string name, Shape global_shape,
                        std::vector<AxisPlacement> placements) {
  Parameter result;
  result.layer = layer;
  result.weight_decay = global_shape.size() == 2;
  result.tensor_parallel = !placements.empty();
  result.layout =
      MakeLayout(env, {std::move(name), std::move(global_shape), std::move(placements)});
  const LocalPiece& piece = result.layout.piece;
  const DType dtype = env.config().dtype;
  result.value = Tensor::Empty(env.context(), dtype, piece.local_shape, MemoryCategory::kParameter);
  env.parameters().Fill(result.name(), result.layout.tensor.global_shape, piece.global_index,
                        result.value);
  result.main_grad =
      Tensor::Zeros(env.context(), env.config().grad_dtype(), piece.local_shape,
                    MemoryCategory::kGradient);
  return result;
}

}  // namespace plumbline
