#include "parallel/tensor/tap.h"

#include <utility>

#include "base/error.h"

namespace plumbline {
namespace {

void CheckPiece(const ObservedLayout& layout, const Tensor& local) {
  if (local.shape() != layout.piece.local_shape) {
    throw Internal("{}: shown with shape {}, its piece has {}", layout.tensor.name,
                   ToString(local.shape()), ToString(layout.piece.local_shape));
  }
}

}  // namespace

ObservedLayout MakeLayout(const RankEnv& env, LogicalTensor tensor) {
  LocalPiece piece = PieceOf(tensor, env.mesh(), env.global_rank());
  return {std::move(tensor), std::move(piece)};
}

ObservedLayout Named(ObservedLayout layout, std::string name) {
  layout.tensor.name = std::move(name);
  return layout;
}

Tap::Tap(int32_t layer, ObservedLayout layout, std::optional<ObservedLayout> gradient_layout)
    : site_(MakeSite(layer, layout.tensor.name)),
      layout_(std::move(layout)),
      gradient_layout_(std::move(gradient_layout)) {
  if (gradient_layout_) gradient_layout_->tensor.name = site_.tensor;
}

void Tap::ShowValue(const RankEnv& env, const Pass& pass, const Tensor& local) const {
  CheckPiece(layout_, local);
  // A recomputation makes what the forward has shown already.
  if (pass.phase == Phase::kRecompute) return;
  env.probe().Observe(At(pass, Quantity::kValue), layout_, local);
}

void Tap::ShowGradient(const RankEnv& env, const Pass& pass, const Tensor& local) const {
  const ObservedLayout& layout = gradient_layout_ ? *gradient_layout_ : layout_;
  CheckPiece(layout, local);
  env.probe().Observe(At(pass, Quantity::kGradient), layout, local);
}

}  // namespace plumbline
