// The GPT: embeddings, layers, final norm, logits, loss per token; and its gradient.
//
//   x = dropout(words(token) + positions(position));  x = layer_n(x) for each n
//   logits = norm(x) W^T;  loss = cross_entropy(logits, label)
// W is the word embedding's own table when tied; its gradient then has both contributions.
//
// Shapes:   one row s * B + b for each token.
// Numerics: one instance computes one microbatch at a time; Backward reads what the last Forward
//           kept. Instantiated for double, the prime fields, and dual numbers over double and M61
//           in model_*.cc; definitions in model_inl.h.
// Errors:   InvalidArgument when the configuration's rotary channels are odd.
// Source:   Radford et al. 2019; Megatron-Core gpt_model.py for the names.
#ifndef PLUMBLINE_ORACLE_MODEL_H_
#define PLUMBLINE_ORACLE_MODEL_H_

#include <memory>
#include <vector>

#include "base/config.h"
#include "oracle/matrix.h"
#include "oracle/microbatch.h"
#include "oracle/parameters.h"
#include "oracle/recorder.h"

namespace plumbline {

template <class T>
class Gpt {
 public:
  explicit Gpt(const TransformerConfig& config);
  ~Gpt();
  Gpt(const Gpt&) = delete;
  Gpt& operator=(const Gpt&) = delete;

  // Cross entropy of each token, [S B, 1], before the mask. `parameters` and `microbatch` must live
  // until the backward.
  Matrix<T> Forward(const Parameters<T>& parameters, const Microbatch& microbatch,
                    Recorder<T>& recorder);
  // Adds the gradient of sum_t dloss_t loss_t to `gradients`.
  void Backward(const Matrix<T>& dloss, const Parameters<T>& parameters,
                const Microbatch& microbatch, Parameters<T>& gradients, Recorder<T>& recorder);

 private:
  struct Saved;
  // Classes that take part in the loss.
  int64_t classes() const;

  TransformerConfig config_;
  std::vector<double> inverse_frequencies_;
  std::unique_ptr<Saved> saved_;
};

}  // namespace plumbline

#endif  // PLUMBLINE_ORACLE_MODEL_H_
