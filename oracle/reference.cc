#include "oracle/reference.h"

#include "base/error.h"
#include "oracle/trainer.h"

namespace plumbline {

void RunReference(const TransformerConfig& model, const TrainConfig& train, DType dtype,
                  const ParameterSource& parameters, const BatchSource& batches,
                  ReferenceSink& sink) {
  switch (dtype) {
    case DType::kF64:
      Trainer<double>(model, train, parameters, batches, sink).Run();
      return;
    default:
      throw InvalidArgument("the reference computes in f64, not in {}", Name(dtype));
  }
}

}  // namespace plumbline
