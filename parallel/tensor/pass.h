// One trip of a microbatch through the model, and the sites that it tags.
#ifndef PLUMBLINE_PARALLEL_TENSOR_PASS_H_
#define PLUMBLINE_PARALLEL_TENSOR_PASS_H_

#include <cstdint>
#include <string>
#include <utility>

#include "base/batch.h"
#include "base/site.h"
#include "base/tensor.h"

namespace plumbline {

// A microbatch's data, with its labels laid out as the logits are: sequence first.
struct Microbatch {
  Batch batch;
  Tensor targets;           // i64 [S * B], row-major over [S, B]
  Tensor loss_mask;         // [S * B], 0 or 1, in the run's dtype
  int64_t label_count = 0;  // ones in loss_mask
  bool packed = false;      // attention stays inside the documents of batch.document_ids
};

Microbatch MakeMicrobatch(const Context& context, Batch batch, DType dtype, bool packed);

// What a module is told beside its input. `microbatch` is the global number (base/site.h).
struct Pass {
  int32_t step = 1;
  int32_t microbatch = 0;
  Phase phase = Phase::kForward;
  const Microbatch* data = nullptr;
};

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
  site.phase = pass.phase;
  site.quantity = quantity;
  return site;
}

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_TENSOR_PASS_H_
