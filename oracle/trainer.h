// Training: for each step the gradient over its microbatches, clipping, and the optimizer.
//
// Records every site of docs/sites.md, in the order there. SGD has an exp_avg (its momentum buffer)
// when there is momentum, and no exp_avg_sq.
//
// Errors:   InvalidArgument when a parameter or batch does not fit the configuration.
// Source:   Megatron-LM training.py, train_step.
#ifndef PLUMBLINE_ORACLE_TRAINER_H_
#define PLUMBLINE_ORACLE_TRAINER_H_

#include <cstdint>
#include <vector>

#include "base/batch.h"
#include "base/config.h"
#include "base/init.h"
#include "base/probe.h"
#include "oracle/adamw.h"
#include "oracle/clip.h"
#include "oracle/model.h"
#include "oracle/parameters.h"
#include "oracle/recorder.h"
#include "oracle/sgd.h"
#include "oracle/step.h"

namespace plumbline {

template <class T>
class Trainer {
 public:
  Trainer(const TransformerConfig& model, const TrainConfig& train,
          const ParameterSource& parameters, const BatchSource& batches, ReferenceSink& sink)
      : model_(model),
        train_(train),
        batches_(batches),
        recorder_(&sink),
        gpt_(model),
        specs_(ParameterSpecs(model)),
        parameters_(LoadParameters<T>(model, parameters)),
        exp_avg_(ZeroParameters<T>(model)),
        exp_avg_sq_(ZeroParameters<T>(model)) {}

  void Run() {
    recorder_.set_step(0);
    RecordAll(Phase::kInit, Quantity::kParameter, parameters_);
    for (int64_t step = 1; step <= train_.steps; ++step) Step(step);
  }

 private:
  void Step(int64_t step) {
    recorder_.set_step(step);
    const StepData data = MakeStepData(model_, train_, batches_, step);
    Parameters<T> gradients = ZeroParameters<T>(model_);
    const T loss = RunStep(gpt_, data, parameters_, &gradients, recorder_);
    RecordAll(Phase::kFinalize, Quantity::kMainGrad, gradients);
    recorder_.RecordScalar(Phase::kFinalize, "lm_loss", loss);
    Clip(gradients);
    Update(step, gradients);
    recorder_.RecordCounter("optimizer_step", step);
    recorder_.RecordCounter("consumed_samples", step * train_.global_batch_size);
  }

  void Clip(Parameters<T>& gradients) {
    const std::vector<Matrix<T>*> matrices = ParameterMatrices(specs_, gradients);
    const T norm = GradientNorm(matrices);
    recorder_.RecordScalar(Phase::kNorm, "grad_norm", norm);
    if (train_.clip_grad == 0) return;
    const T coefficient = ClipCoefficient(train_.clip_grad, norm);
    recorder_.RecordScalar(Phase::kNorm, "clip_coefficient", coefficient);
    for (Matrix<T>* gradient : matrices) *gradient *= coefficient;
  }

  void Update(int64_t step, Parameters<T>& gradients) {
    const bool adam = train_.optimizer == OptimizerKind::kAdam;
    const std::vector<Matrix<T>*> g = ParameterMatrices(specs_, gradients);
    const std::vector<Matrix<T>*> p = ParameterMatrices(specs_, parameters_);
    const std::vector<Matrix<T>*> m = ParameterMatrices(specs_, exp_avg_);
    const std::vector<Matrix<T>*> v = ParameterMatrices(specs_, exp_avg_sq_);
    for (size_t i = 0; i < specs_.size(); ++i) {
      const double weight_decay = specs_[i].decays() ? train_.weight_decay : 0;
      if (adam) {
        AdamWStep(
            {train_.lr, train_.adam_beta1, train_.adam_beta2, train_.adam_eps, weight_decay, step},
            *g[i], *p[i], *m[i], *v[i]);
      } else {
        SgdStep({train_.lr, train_.sgd_momentum, weight_decay, step}, *g[i], *p[i], *m[i]);
      }
      RecordOne(Phase::kStep, Quantity::kParameter, specs_[i], *p[i]);
      if (adam || train_.sgd_momentum != 0) {
        RecordOne(Phase::kStep, Quantity::kExpAvg, specs_[i], *m[i]);
      }
      if (adam) RecordOne(Phase::kStep, Quantity::kExpAvgSq, specs_[i], *v[i]);
    }
  }

  void RecordOne(Phase phase, Quantity quantity, const ParameterSpec& spec,
                 const Matrix<T>& matrix) {
    recorder_.Record(phase, quantity, spec.name, spec.layer, matrix, spec.shape);
  }
  void RecordAll(Phase phase, Quantity quantity, Parameters<T>& parameters) {
    const std::vector<Matrix<T>*> matrices = ParameterMatrices(specs_, parameters);
    for (size_t i = 0; i < specs_.size(); ++i) {
      RecordOne(phase, quantity, specs_[i], *matrices[i]);
    }
  }

  TransformerConfig model_;
  TrainConfig train_;
  const BatchSource& batches_;
  Recorder<T> recorder_;
  Gpt<T> gpt_;
  std::vector<ParameterSpec> specs_;
  Parameters<T> parameters_;
  Parameters<T> exp_avg_;
  Parameters<T> exp_avg_sq_;
};

}  // namespace plumbline

#endif  // PLUMBLINE_ORACLE_TRAINER_H_
