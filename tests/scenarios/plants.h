// Mistakes in what ranks say to their communicators, and in what they are given.
#ifndef PLUMBLINE_TESTS_SCENARIOS_PLANTS_H_
#define PLUMBLINE_TESTS_SCENARIOS_PLANTS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/init.h"
#include "parallel/comm/mutation.h"
#include "scenarios/planted_calls.h"
#include "scenarios/scenario.h"

namespace plumbline {

using Plant = std::function<void(Scenario&)>;

// A decorator with these rules on every rank.
Plant Mutate(RulesOfRank rules);
Plant OnEveryRank(std::function<MutationRule()> rule);
Plant OnOneRank(int rank, std::function<MutationRule()> rule);
Plant Both(Plant first, Plant second);
void WithoutFingerprint(Scenario& scenario);
void ContinueOnMismatch(Scenario& scenario);

// Calls that carry a site of one tensor.
CallPredicate Moves(std::string tensor, Phase phase);
CallPredicate MovesInStep(std::string tensor, Phase phase, int step);
// The data-parallel reductions of layer 0's first norm: weight and bias are neighbours of one
// shape.
CallPredicate MovesEitherNorm();
CallPredicate WithReduceOp(ReduceOp op, CallPredicate also);

Group Reversed(const Group& group);
// The input times a factor, in a buffer of its own.
void ScaleInput(CollectiveCall& call, double factor);
MutationRule AddToResult(CallPredicate predicate, double constant);

// Every shard is filled as if it were the first of its parameter.
class SameSeedForEveryShard : public ParameterSource {
 public:
  explicit SameSeedForEveryShard(const ParameterSource& inner) : inner_(inner) {}
  void Fill(const std::string& name, const Shape& global_shape,
            const std::vector<int64_t>& global_index, Tensor& local) const override;

 private:
  const ParameterSource& inner_;
};

}  // namespace plumbline

#endif  // PLUMBLINE_TESTS_SCENARIOS_PLANTS_H_
