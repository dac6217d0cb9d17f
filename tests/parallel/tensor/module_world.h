// Runs modules of parallel/ on simulated ranks, without a training loop.
#ifndef PLUMBLINE_TESTS_PARALLEL_TENSOR_MODULE_WORLD_H_
#define PLUMBLINE_TESTS_PARALLEL_TENSOR_MODULE_WORLD_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/probe.h"
#include "base/tensor.h"
#include "parallel/tensor/parameter.h"
#include "parallel/tensor/pass.h"
#include "parallel/tensor/rank_env.h"
#include "parallel/train/policies.h"

namespace plumbline {

// A probe that looks at nothing.
class BlindProbe : public Probe {
 public:
  void Observe(const Site&, const ObservedLayout&, const Tensor&) override {}
  void ObserveCounter(const Site&, int64_t) override {}
};

// tp ranks, one of every other axis.
RunConfig TensorParallelConfig(int tp, bool sequence_parallel);
// "tp4", "tp4sp".
std::string LayoutName(const RunConfig& config);

// The right decisions.
const Policies& DefaultPolicies();

// Runs `body` on each rank with seeded parameters. A rank's exception is rethrown, a finding of the
// world is an Internal error.
void OnEachRank(const RunConfig& config, const std::function<void(const RankEnv&)>& body,
                const Policies& policies = DefaultPolicies());

// Numbers without a pattern, the same for the same seed; f64, in no rank's memory.
Tensor Numbers(Shape shape, uint64_t seed);
// Element i is i.
Tensor Indices(Shape shape);
// The elements of a whole tensor that a rank holds: padding is 0.
Tensor PieceOfWhole(const Tensor& whole, const LocalPiece& piece);
// Puts a rank's piece in its place.
void PutPiece(const Tensor& local, const LocalPiece& piece, Tensor& whole);
Tensor ZeroTensor(Shape shape);

// A pass without data: step 1, microbatch 0.
inline Pass ForwardPass() { return {}; }
inline Pass BackwardPass() { return {.phase = Phase::kBackward}; }

// max|a - b| / max|b|, NaN when either holds one.
double Deviation(const Tensor& a, const Tensor& b);

}  // namespace plumbline

#endif  // PLUMBLINE_TESTS_PARALLEL_TENSOR_MODULE_WORLD_H_
