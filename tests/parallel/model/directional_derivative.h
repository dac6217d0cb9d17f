// A module's backward against finite differences of its forward, along random directions.
#ifndef PLUMBLINE_TESTS_PARALLEL_MODEL_DIRECTIONAL_DERIVATIVE_H_
#define PLUMBLINE_TESTS_PARALLEL_MODEL_DIRECTIONAL_DERIVATIVE_H_

#include <functional>
#include <vector>

#include "base/tensor.h"
#include "parallel/tensor/parameter.h"
#include "parallel/tensor/pass.h"

namespace plumbline {

double InnerProduct(const Tensor& a, const Tensor& b);
// target += factor * direction.
void MoveAlong(Tensor& target, double factor, const Tensor& direction);

// |<gradient, v> - derivative along v| / |derivative|, where `value` is evaluated with `point`
// moved along a random direction v. Fourth-order central differences: the error is of the order of
// 1e-11 for smooth functions of magnitude 1.
double DerivativeError(Tensor& point, const Tensor& gradient, const std::function<double()>& value,
                       uint64_t seed);

// A batch of `model`'s tokens, packed documents of odd lengths or one document, all labels
// counting.
Microbatch TestMicrobatch(const RunConfig& config, bool packed);

}  // namespace plumbline

#endif  // PLUMBLINE_TESTS_PARALLEL_MODEL_DIRECTIONAL_DERIVATIVE_H_
