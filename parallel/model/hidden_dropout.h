// Dropout of a hidden state, by global position: the mask does not depend on the layout.
//
// Shapes:   x [S, B, H] or this rank's rows of it -> the same.
#ifndef PLUMBLINE_PARALLEL_MODEL_HIDDEN_DROPOUT_H_
#define PLUMBLINE_PARALLEL_MODEL_HIDDEN_DROPOUT_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/dropout.h"
#include "parallel/tensor/pass.h"
#include "parallel/tensor/rank_env.h"

namespace plumbline {

// The words that a dropout named `site_hash` (base/rng.h, HashOfName) reads at this pass.
DropoutKey DropoutKeyAt(const RankEnv& env, const Pass& pass, double probability,
                        uint64_t site_hash);

class HiddenDropout {
 public:
  HiddenDropout(const RankEnv& env, std::string_view site);

  Tensor Forward(const Pass& pass, const Tensor& x) const { return Apply(pass, x); }
  Tensor Backward(const Pass& pass, const Tensor& dy) const { return Apply(pass, dy); }

 private:
  Tensor Apply(const Pass& pass, const Tensor& x) const;

  const RankEnv& env_;
  uint64_t site_hash_;
};

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_MODEL_HIDDEN_DROPOUT_H_
