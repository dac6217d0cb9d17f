#include "scenarios/planted_step.h"

#include <string>

#include "base/scalar.h"
#include "base/tensor.h"
#include "scenarios/planted_calls.h"

namespace plumbline {
namespace {

std::string NeedsLossPerToken(const RunConfig& config) {
  if (config.parallel.dp == 1) return "--data-parallel-size above 1";
  return config.train.calculate_per_token_loss ? "" : "--calculate-per-token-loss";
}
std::string NeedsAdam(const RunConfig& config) {
  return config.train.optimizer == OptimizerKind::kAdam ? "" : "--optimizer adam";
}
std::string NeedsWeightDecay(const RunConfig& config) {
  return config.train.weight_decay > 0 ? "" : "--weight-decay above 0";
}
std::string NeedsSplitDropout(const RunConfig& config) {
  if (!config.parallel.sequence_parallel) return "--sequence-parallel";
  return config.model.hidden_dropout > 0 ? "" : "--hidden-dropout above 0";
}
std::string NeedsWholeDropout(const RunConfig& config) {
  const bool whole = config.parallel.tp > 1 && !config.parallel.sequence_parallel;
  if (!whole) return "--tensor-model-parallel-size above 1 without --sequence-parallel";
  return config.model.hidden_dropout > 0 ? "" : "--hidden-dropout above 0";
}

void PlantLocalTokenDenominators(Scenario& scenario) {
  MutateCalls(scenario, [](const Mesh&, int) {
    return std::vector<MutationRule>{Drop([](const CollectiveCall& call, int) {
      return call.op == CollectiveOp::kAllReduce && call.site.tensor == "num_tokens";
    })};
  });
}

// p = p - lr wd p - lr mhat / sqrt(vhat + eps), after the right operator moved the moments.
void AdamStepWithEpsInsideTheRoot(const Context& context, Tensor& parameter, const Tensor& gradient,
                                  Tensor& exp_avg, Tensor& exp_avg_sq, const AdamOptions& options,
                                  const Tensor& gradient_scale) {
  Tensor unused = parameter.Clone(context);
  AdamStep(context, unused, gradient, exp_avg, exp_avg_sq, options, gradient_scale);
  DispatchScalar(parameter.dtype(), [&]<class T>() {
    using Scalar = ScalarTraits<T>;
    const T one = Scalar::FromInt(1);
    const T lr = Scalar::FromDouble(options.lr);
    const T kept = one - lr * Scalar::FromDouble(options.weight_decay);
    const T eps = Scalar::FromDouble(options.eps);
    const T correction1 = one - PowInt(Scalar::FromDouble(options.beta1), options.step);
    const T correction2 = one - PowInt(Scalar::FromDouble(options.beta2), options.step);
    T* p = parameter.data<T>();
    for (int64_t i = 0; i < parameter.elements(); ++i) {
      const T mean = exp_avg.data<T>()[i] / correction1;
      const T square = exp_avg_sq.data<T>()[i] / correction2;
      p[i] = kept * p[i] - lr * mean / Scalar::Sqrt(square + eps);
    }
  });
}

}  // namespace

std::vector<Planted> PlantedStepMistakes() {
  return {
      {"local-token-denominators",
       "each data-parallel rank divides its gradients by its own count of labels",
       NeedsLossPerToken, PlantLocalTokenDenominators},
      {"dropout-masks-equal-over-sequence",
       "tp ranks that each hold a part of the sequence draw the same dropout masks",
       NeedsSplitDropout,
       [](Scenario& scenario) {
         scenario.policies.hidden_dropout.row = [](int64_t row, int64_t first_row) {
           return row - first_row;
         };
       }},
      {"dropout-masks-differ-over-tp",
       "tp ranks that hold the same hidden states draw different dropout masks", NeedsWholeDropout,
       [](Scenario& scenario) {
         scenario.policies.hidden_dropout.seed = [](int tp_rank, uint64_t seed) {
           return seed + static_cast<uint64_t>(tp_rank);
         };
       }},
      {"adam-eps-inside-the-root", "Adam divides by sqrt(v + eps)", NeedsAdam,
       [](Scenario& scenario) { scenario.policies.adam_step = AdamStepWithEpsInsideTheRoot; }},
      {"weight-decay-on-norms-and-biases", "norm weights and biases decay as weights do",
       NeedsWeightDecay,
       [](Scenario& scenario) {
         scenario.policies.weight_decay = [decay = scenario.config.train.weight_decay](
                                              const std::string&, double) { return decay; };
       }},
  };
}

}  // namespace plumbline
