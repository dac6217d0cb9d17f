#include "tests/scenarios/plants.h"

#include <algorithm>
#include <utility>

namespace plumbline {

Plant Mutate(RulesOfRank rules) {
  return [rules = std::move(rules)](Scenario& scenario) { MutateCalls(scenario, rules); };
}
Plant OnEveryRank(std::function<MutationRule()> rule) {
  return Mutate(
      [rule = std::move(rule)](const Mesh&, int) { return std::vector<MutationRule>{rule()}; });
}
Plant OnOneRank(int rank, std::function<MutationRule()> rule) {
  return [rank, rule = std::move(rule)](Scenario& scenario) {
    MutateCallsOfRank(scenario, rank, rule);
  };
}
Plant Both(Plant first, Plant second) {
  return [first = std::move(first), second = std::move(second)](Scenario& scenario) {
    first(scenario);
    second(scenario);
  };
}
void WithoutFingerprint(Scenario& scenario) { scenario.world.fingerprint = false; }
void ContinueOnMismatch(Scenario& scenario) { scenario.world.on_mismatch = OnMismatch::kContinue; }

CallPredicate Moves(std::string tensor, Phase phase) {
  return [tensor = std::move(tensor), phase](const CollectiveCall& call, int) {
    return call.site.tensor == tensor && call.site.phase == phase;
  };
}
CallPredicate MovesInStep(std::string tensor, Phase phase, int step) {
  return [moves = Moves(std::move(tensor), phase), step](const CollectiveCall& call, int rank) {
    return call.site.step == step && moves(call, rank);
  };
}
CallPredicate MovesEitherNorm() {
  return [](const CollectiveCall& call, int) {
    return call.site.step == 1 && call.group.name == "dp-cp" &&
           (call.site.tensor == "decoder.layers.0.input_layernorm.weight" ||
            call.site.tensor == "decoder.layers.0.input_layernorm.bias");
  };
}
CallPredicate WithReduceOp(ReduceOp op, CallPredicate also) {
  return [op, also = std::move(also)](const CollectiveCall& call, int rank) {
    return call.reduce_op == op && also(call, rank);
  };
}

Group Reversed(const Group& group) {
  Group reversed = group;
  std::reverse(reversed.members.begin(), reversed.members.end());
  reversed.hash = HashOfMembers(reversed.members);
  return reversed;
}

void ScaleInput(CollectiveCall& call, double factor) {
  call.input = call.input.Clone(Context{});
  DispatchScalar(call.input.dtype(), [&]<class T>() {
    T* values = call.input.data<T>();
    const T scale = ScalarTraits<T>::FromDouble(factor);
    for (int64_t i = 0; i < call.input.elements(); ++i) values[i] *= scale;
  });
}

MutationRule AddToResult(CallPredicate predicate, double constant) {
  return ChangeResult(std::move(predicate), [constant](Tensor& output) {
    DispatchScalar(output.dtype(), [&]<class T>() {
      T* values = output.data<T>();
      const T added = ScalarTraits<T>::FromDouble(constant);
      for (int64_t i = 0; i < output.elements(); ++i) values[i] += added;
    });
  });
}

void SameSeedForEveryShard::Fill(const std::string& name, const Shape& global_shape,
                                 const std::vector<int64_t>& global_index, Tensor& local) const {
  std::vector<int64_t> index = global_index;
  for (int64_t& i : index) i -= std::max<int64_t>(global_index.front(), 0);
  inner_.Fill(name, global_shape, index, local);
}

}  // namespace plumbline
