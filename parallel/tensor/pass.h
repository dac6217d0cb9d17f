// One trip of a microbatch through the model, and the sites that it tags.
#ifndef PLUMBLINE_PARALLEL_TENSOR_PASS_H_
#define PLUMBLINE_PARALLEL_TENSOR_PASS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/batch.h"
#include "base/site.h"
#include "base/tensor.h"

namespace plumbline {

// A microbatch's data, with its labels laid out as the logits are: sequence first. What a pipeline
// stage does not read is undefined.
struct Microbatch {
  Batch batch;
  Tensor targets;           // i64 [S * B], row-major over [S, B]
  Tensor loss_mask;         // [S * B], 0 or 1, in what the run sums in
  int64_t label_count = 0;  // ones in loss_mask
  bool packed = false;      // attention stays inside the documents of batch.document_ids
};

Microbatch MakeMicrobatch(const Context& context, Batch batch, DType dtype, bool packed);

// The weight part of a backward, put off: what each module still has to add to its gradients.
class WeightWork {
 public:
  void Add(std::function<void()> work) { work_.push_back(std::move(work)); }
  // In the order in which it was put off; afterwards nothing is left.
  void Run() {
    for (const std::function<void()>& work : work_) work();
    work_.clear();
  }

 private:
  std::vector<std::function<void()>> work_;
};

// What a module is told beside its input. `microbatch` is the global number (base/site.h).
struct Pass {
  int32_t step = 1;
  int32_t microbatch = 0;
  Phase phase = Phase::kForward;
  const Microbatch* data = nullptr;
  int32_t chunk = -1;  // -1: the only one
  // The step whose dropout masks apply; -1: `step`. A backward after a recomputation needs the
  // masks of the recomputation.
  int32_t mask_step = -1;
  WeightWork* deferred = nullptr;  // of a backward that is its input part alone
};

// Adds gradients of parameters now, or when the weight part's turn comes. `work` holds what it
// needs.
template <class Work>
void AddNowOrLater(const Pass& pass, Work work) {
  if (pass.deferred != nullptr) {
    pass.deferred->Add(std::move(work));
  } else {
    work();
  }
}

// The site of an activation at this pass. `layer` and the name are fixed when a module is built.
inline Site MakeSite(int32_t layer, std::string tensor) {
  Site site;
  site.layer = layer;
  site.tensor = std::move(tensor);
  return site;
}
inline Site SiteAt(const Site& base, const Pass& pass, Quantity quantity) {
  Site site = base;
  site.step = pass.step;
  site.microbatch = pass.microbatch;
  site.chunk = pass.chunk;
  site.phase = pass.phase;
  site.quantity = quantity;
  return site;
}

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_TENSOR_PASS_H_
