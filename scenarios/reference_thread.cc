#include "scenarios/reference_thread.h"

#include <exception>

#include "base/field.h"
#include "oracle/reference.h"
#include "scenarios/bounds.h"

namespace plumbline {

void FieldKey::Set() const {
  if (!IsExact(dtype)) return;
  if (dtype == DType::kP31) SetSmallPrime(small_prime);
  CurrentFieldRun() = {key, 0};
}

ReferenceThread::ReferenceThread(const RunConfig& config, const ScenarioInputs& inputs,
                                 const FieldKey& field, ReferenceTrace& trace)
    : trace_(trace), thread_([this, &config, &inputs, field, &trace] {
        field.Set();
        try {
          RunReference(config.model, config.train, ReferenceDType(config.dtype), inputs.parameters,
                       inputs.batches, trace);
          divisions_by_zero_ = CurrentFieldRun().divisions_by_zero;
          trace.Finish();
        } catch (...) {
          trace.Fail(std::current_exception());
        }
      }) {}

ReferenceThread::~ReferenceThread() {
  trace_.Cancel();
  thread_.join();
}

}  // namespace plumbline
