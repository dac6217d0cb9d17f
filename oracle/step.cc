#include "oracle/step.h"

namespace plumbline {

StepData MakeStepData(const TransformerConfig& model, const TrainConfig& train,
                      const BatchSource& batches, int64_t step) {
  StepData data;
  data.normalization.per_token = train.calculate_per_token_loss;
  data.normalization.microbatches = train.global_microbatches();
  for (int64_t m = 0; m < train.global_microbatches(); ++m) {
    const Batch batch = batches.Get(Context{}, step, m);
    data.microbatches.push_back(MakeMicrobatch(model, batch, train.seed, step));
    data.normalization.step_labels += CountLabels(data.microbatches.back().counted);
  }
  return data;
}

}  // namespace plumbline
