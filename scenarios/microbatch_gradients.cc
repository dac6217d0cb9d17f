#include "scenarios/microbatch_gradients.h"

#include <limits>
#include <map>
#include <string>
#include <utility>

#include "base/error.h"
#include "oracle/reference.h"
#include "scenarios/bounds.h"
#include "scenarios/named_numbers.h"

namespace plumbline {
namespace {

// One microbatch of a step as the only one of a first step.
class OneMicrobatch : public BatchSource {
 public:
  OneMicrobatch(const BatchSource& inner, int64_t step, int64_t microbatch)
      : inner_(inner), step_(step), microbatch_(microbatch) {}
  Batch Get(const Context& context, int64_t /*step*/, int64_t /*microbatch*/) const override {
    return inner_.Get(context, step_, microbatch_);
  }

 private:
  const BatchSource& inner_;
  int64_t step_;
  int64_t microbatch_;
};

}  // namespace

std::vector<Values> MicrobatchGradients(const RunConfig& config, const ScenarioInputs& inputs,
                                        const Site& site, ReferenceTrace& reference) {
  constexpr int64_t kMost = 64;
  const int64_t count = config.train.global_microbatches();
  const bool dropout = config.model.hidden_dropout > 0 || config.model.attention_dropout > 0;
  if (site.quantity != Quantity::kMainGrad || count > kMost || (dropout && site.step > 1)) {
    return {};
  }
  std::map<std::string, Tensor> parameters;
  for (const ReferenceEntry& entry : reference.entries()) {
    if (!IsStartingParameter(entry.site, site.step)) continue;
    if (!entry.tensor.defined()) return {};
    parameters[entry.site.tensor] = entry.tensor;
  }
  const GivenParameters given(std::move(parameters));
  TrainConfig train = config.train;
  train.steps = 1;
  train.global_batch_size = train.micro_batch_size;
  int64_t labels_of_step = 0;
  for (int64_t m = 0; m < count; ++m) labels_of_step += LabelsOf(inputs.batches, site.step, m);
  std::vector<Values> gradients;
  for (int64_t m = 0; m < count; ++m) {
    ReferenceTrace::Options options;
    options.keep = [](const Site& one) { return one.quantity == Quantity::kMainGrad; };
    options.max_bytes_ahead = std::numeric_limits<int64_t>::max();
    ReferenceTrace alone(train, options);
    RunReference(config.model, train, ReferenceDType(config.dtype), given,
                 OneMicrobatch(inputs.batches, site.step, m), alone);
    alone.Finish();
    Site first = site;
    first.step = 1;
    const ReferenceEntry* entry = alone.Find(first);
    PL_CHECK(entry != nullptr);
    const int64_t part =
        train.calculate_per_token_loss ? LabelsOf(inputs.batches, site.step, m) : 1;
    const int64_t whole = train.calculate_per_token_loss ? labels_of_step : count;
    const Number share = Fraction(entry->tensor.dtype(), part, whole);
    gradients.push_back(ToValues(entry->tensor, share));
  }
  return gradients;
}

}  // namespace plumbline
