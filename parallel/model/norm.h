// The normalisation module: LayerNorm or RMSNorm of this rank's rows of a hidden state.
//
// Shapes:   x [S, B, H] or, with sequence parallelism, [S/tp, B, H] -> the same.
// Comm:     none. With sequence parallelism the gradients of weight and bias are this rank's terms
//           of a sum over tp (parallel/sequence/replicated_gradients.h).
#ifndef PLUMBLINE_PARALLEL_MODEL_NORM_H_
#define PLUMBLINE_PARALLEL_MODEL_NORM_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parallel/model/activation_layouts.h"
#include "parallel/tensor/parameter.h"
#include "parallel/tensor/pass.h"
#include "parallel/tensor/tap.h"

namespace plumbline {

class Norm {
 public:
  struct Saved {
    Tensor x;
    Tensor mean;
    Tensor rstd;
  };

  Norm(const RankEnv& env, const ActivationLayouts& layouts, int32_t layer,
       const std::string& name);
  Norm(const Norm&) = delete;
  Norm& operator=(const Norm&) = delete;

  Tensor Forward(const Pass& pass, const Tensor& x, Saved& saved) const;
  Tensor Backward(const Pass& pass, const Tensor& dy, const Saved& saved);

  void AppendParameters(std::vector<Parameter*>& parameters);

 private:
  const RankEnv& env_;
  Tap output_;
  Parameter weight_;
  std::optional<Parameter> bias_;  // LayerNorm
};

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_MODEL_NORM_H_
