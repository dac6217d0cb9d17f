// Causal scaled dot-product attention with its log-sum-exp, grouped queries, packed documents and
// dropout.
//
// score = (q . k) / sqrt(D); P = softmax over the keys that the query may see; out = dropout(P) v.
// A query sees a key when both are in the same document and key position <= query position.
//
// Shapes:   q [S, B, A, D], k and v [S_k, B, G, D] with A % G == 0, any strides; out [S, B, A, D];
// lse [B, A, S].
//           A query head h reads group h / (A / G).
// Numerics: q . k, the sum of exponentials and P v each sum in ascending order in one chain; hidden
// keys are skipped.
//           dk and dv sum over queries ascending, then over the heads of the group ascending.
//           The log-sum-exp is a ScalarTraits::LogSum stored as the scalar's dtype. bf16 and f16
//           are computed in f32, P included, and results rounded once; their log-sum-exp is f32.
// Source:   Vaswani et al. 2017; the backward from (q, k, v, out, lse) as in Dao et al. 2022.
#ifndef PLUMBLINE_KERNELS_ATTENTION_H_
#define PLUMBLINE_KERNELS_ATTENTION_H_

#include <cstdint>
#include <vector>

#include "base/context.h"
#include "base/tensor.h"
#include "kernels/dropout.h"

namespace plumbline {

struct AttentionOptions {
  // Global positions in the sequence of the local queries and keys; the causal rule compares these.
  std::vector<int64_t> query_positions;
  std::vector<int64_t> key_positions;
  Tensor document_ids;  // i64 [B, S_global], indexed by position; undefined: one document
  // Attention dropout: the word of (head, query, key) has index (head * S_global + query) *
  // S_global + key, with the global head number first_head + h.
  DropoutKey dropout;
  int64_t first_head = 0;
  int64_t global_sequence = 0;
};

struct AttentionForwardResult {
  Tensor out;
  Tensor lse;
};
struct AttentionBackwardResult {
  Tensor dq;
  Tensor dk;
  Tensor dv;
};

AttentionForwardResult AttentionForward(const Context& context, const Tensor& q, const Tensor& k,
                                        const Tensor& v, const AttentionOptions& options);
AttentionBackwardResult AttentionBackward(const Context& context, const Tensor& dout,
                                          const Tensor& q, const Tensor& k, const Tensor& v,
                                          const Tensor& out, const Tensor& lse,
                                          const AttentionOptions& options);

}  // namespace plumbline

#endif  // PLUMBLINE_KERNELS_ATTENTION_H_
