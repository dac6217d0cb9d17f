// Loss and gradient of one training step over its microbatches.
//
// Each microbatch's forward and backward come before the next microbatch's; gradients add up.
//
// Errors:   InvalidArgument when a batch does not fit the configuration.
#ifndef PLUMBLINE_ORACLE_STEP_H_
#define PLUMBLINE_ORACLE_STEP_H_

#include <cstdint>
#include <vector>

#include "base/batch.h"
#include "base/config.h"
#include "oracle/loss.h"
#include "oracle/microbatch.h"
#include "oracle/model.h"
#include "oracle/parameters.h"
#include "oracle/recorder.h"

namespace plumbline {

struct StepData {
  std::vector<Microbatch> microbatches;
  LossNormalization normalization;
};

// Step counts from 1.
StepData MakeStepData(const TransformerConfig& model, const TrainConfig& train,
                      const BatchSource& batches, int64_t step);

// Returns the step's loss. Adds its gradient to `gradients`, unless that is nullptr.
template <class T>
T RunStep(Gpt<T>& gpt, const StepData& data, const Parameters<T>& parameters,
          Parameters<T>* gradients, Recorder<T>& recorder) {
  T sum = ScalarTraits<T>::FromInt(0);
  for (size_t m = 0; m < data.microbatches.size(); ++m) {
    const Microbatch& microbatch = data.microbatches[m];
    recorder.set_microbatch(static_cast<int64_t>(m));
    const Matrix<T> token_loss = gpt.Forward(parameters, microbatch, recorder);
    const T loss = MicrobatchLoss(data.normalization, token_loss, microbatch.counted);
    recorder.RecordScalar(Phase::kForward, "loss", loss);
    sum += loss;
    if (gradients == nullptr) continue;
    const Matrix<T> dloss = TokenLossGradient<T>(data.normalization, microbatch.counted);
    gpt.Backward(dloss, parameters, microbatch, *gradients, recorder);
  }
  recorder.set_microbatch(-1);
  return StepLoss(data.normalization, sum);
}

}  // namespace plumbline

#endif  // PLUMBLINE_ORACLE_STEP_H_
