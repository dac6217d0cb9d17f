#include "scenarios/measure_noise.h"

#include <string>
#include <vector>

#include "base/compare.h"
#include "base/error.h"
#include "base/mesh.h"
#include "base/rng.h"
#include "kernels/elementwise.h"
#include "scenarios/compare.h"
#include "scenarios/reference_thread.h"
#include "scenarios/reference_trace.h"

namespace plumbline {
namespace {

// Adds a run's deviations to the floor, and moves the gradients that the optimizer reads.
class FloorRun : public Probe {
 public:
  FloorRun(const RunConfig& config, const BatchSource& batches, ReferenceTrace& reference,
           bool moves_gradients, NoiseFloor& floor)
      : config_(config),
        batches_(batches),
        reference_(reference),
        moves_gradients_(moves_gradients),
        floor_(floor) {}

  void Observe(const Site& site, const ObservedLayout& /*layout*/, const Tensor& local) override {
    const ReferenceEntry* entry = reference_.Find(site);
    PL_CHECK(entry != nullptr);
    Tensor actual = Cast(Context{}, local, DType::kF64);
    if (site.quantity == Quantity::kGradient && config_.train.calculate_per_token_loss) {
      ScaleInto(Context{}, actual, FactorOf(site.step));
    }
    // What the optimizer makes of moved gradients is no floor.
    if (!(moves_gradients_ && site.phase == Phase::kStep)) {
      floor_.Add(site, Compare(actual, entry->tensor).Deviation());
    }
    if (site.quantity == Quantity::kMainGrad && moves_gradients_) {
      gradient_bounds_.push_back(floor_.BoundOf(site) * entry->max_abs);
    }
    if (site.tensor == "clip_coefficient") clip_coefficient_ = *actual.data<double>();
    reference_.Drop(*entry);
  }
  void ObserveCounter(const Site& /*site*/, int64_t /*value*/) override {}

  // Before Adam's update: moves exp_avg and exp_avg_sq so that they become those of gradients that
  // are off by e, at random within their bounds; of the square (g + e)^2 the mean, g^2 + e^2.
  void MoveGradients(int64_t run, int64_t step, std::vector<Tensor>& moments) {
    PL_CHECK(moments.size() == 2 * gradient_bounds_.size());
    const double beta1 = config_.train.adam_beta1;
    const double beta2 = config_.train.adam_beta2;
    const RandomStream stream =
        DataStream(static_cast<uint64_t>(run), "moved gradients of step " + std::to_string(step));
    uint64_t word = 0;
    for (size_t p = 0; p < gradient_bounds_.size(); ++p) {
      Tensor& exp_avg_sq = moments[p + gradient_bounds_.size()];
      float* mean = moments[p].data<float>();
      float* square = exp_avg_sq.data<float>();
      for (int64_t i = 0; i < exp_avg_sq.elements(); ++i) {
        const double e = clip_coefficient_ * gradient_bounds_[p] * (2 * stream.Uniform(word++) - 1);
        mean[i] += static_cast<float>((1 - beta1) / beta1 * e);
        square[i] += static_cast<float>((1 - beta2) / beta2 * e * e);
      }
    }
    gradient_bounds_.clear();
  }

 private:
  double FactorOf(int64_t step) {
    if (step != step_) factor_ = ActivationGradientFactor(config_, batches_, step);
    step_ = step;
    return factor_;
  }

  const RunConfig& config_;
  const BatchSource& batches_;
  ReferenceTrace& reference_;
  const bool moves_gradients_;
  NoiseFloor& floor_;
  int64_t step_ = -1;
  double factor_ = 1;
  // Absolute, of the step under way, in the order of parameters.
  std::vector<double> gradient_bounds_;
  double clip_coefficient_ = 1;
};

// SGD turns no small difference of gradients into a large one.
bool MovesGradients(const TrainConfig& train) {
  return train.optimizer == OptimizerKind::kAdam && train.adam_beta1 > 0 && train.adam_beta2 > 0;
}

}  // namespace

RunConfig OnOneRank(const RunConfig& config) {
  RunConfig one = config;
  one.parallel = {};
  one.parallel.data.grads_in_param_dtype = config.parallel.data.grads_in_param_dtype;
  if (one.model.vocab_padding == VocabPadding::kMegatron) {
    one.model.padded_vocab_size = PaddedVocabSize(one.model.vocab_size, 1);
  }
  return one;
}

NoiseFloor MeasureNoiseFloor(const RunConfig& config, const ScenarioInputs& inputs,
                             const NoiseFloorOptions& options,
                             const std::function<void(double)>& progress) {
  NoiseFloor floor(config.dtype, options);
  Scenario scenario;
  scenario.config = OnOneRank(config);
  const Mesh mesh(scenario.config.parallel);
  for (size_t run = 0; run < options.orders.size(); ++run) {
    scenario.sum_order = options.orders[run];
    ReferenceTrace::Options trace_options;
    trace_options.main_params = HasMainParams(scenario.config);
    ReferenceTrace trace(scenario.config.train, trace_options);
    const ReferenceThread reference(scenario.config, inputs, FieldKey{}, trace);
    const bool moves = run > 0 && MovesGradients(config.train);
    FloorRun one(scenario.config, inputs.batches, trace, moves, floor);
    if (moves) {
      scenario.policies.change_moments = [&one, run](Communicator&, const Context&, const Group&,
                                                     int64_t step, std::vector<Tensor>& moments) {
        one.MoveGradients(static_cast<int64_t>(run), step, moments);
      };
    }
    RunObserver observer;
    observer.probe_of = [&](int) -> Probe& { return one; };
    PL_CHECK(RunParallel(scenario, inputs, mesh, observer).completed);
    progress(static_cast<double>(run + 1) / static_cast<double>(options.orders.size()));
  }
  return floor;
}

}  // namespace plumbline
