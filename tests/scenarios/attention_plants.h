// Attention operators that are wrong by one rare term, in any scalar.
#ifndef PLUMBLINE_TESTS_SCENARIOS_ATTENTION_PLANTS_H_
#define PLUMBLINE_TESTS_SCENARIOS_ATTENTION_PLANTS_H_

#include <cstdint>

#include "kernels/attention.h"

namespace plumbline {

// Leaves one key out of one query's softmax: the least probable of all, if its probability is below
// 1e-14; in a field, where nothing is small, the first key of the last query.
AttentionForwardResult SkipLeastProbableKey(const Context& context, const Tensor& q,
                                            const Tensor& k, const Tensor& v,
                                            const AttentionOptions& options);
struct SkippedKeyCount {
  int64_t count = 0;
  double largest_probability = 0;
};
void ResetSkippedKeys();
SkippedKeyCount SkippedKeys();  // in f64, since the reset

// Query 0 sees key 1, which is masked, with a score of -40.
AttentionForwardResult GiveMaskedKeyMinus40(const Context& context, const Tensor& q,
                                            const Tensor& k, const Tensor& v,
                                            const AttentionOptions& options);

// The softmax is divided by exp of its log-sum-exp as an ordinary number.
AttentionForwardResult DivideByExpOfLog(const Context& context, const Tensor& q, const Tensor& k,
                                        const Tensor& v, const AttentionOptions& options);

}  // namespace plumbline

#endif  // PLUMBLINE_TESTS_SCENARIOS_ATTENTION_PLANTS_H_
