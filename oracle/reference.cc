#include "oracle/reference.h"

#include "base/error.h"
#include "oracle/field_traits.h"
#include "oracle/trainer.h"

namespace plumbline {

void RunReference(const TransformerConfig& model, const TrainConfig& train, DType dtype,
                  const ParameterSource& parameters, const BatchSource& batches,
                  ReferenceSink& sink) {
  switch (dtype) {
    case DType::kF64:
      Trainer<double>(model, train, parameters, batches, sink).Run();
      return;
    case DType::kM61:
      Trainer<M61>(model, train, parameters, batches, sink).Run();
      return;
    case DType::kP50:
      Trainer<P50>(model, train, parameters, batches, sink).Run();
      return;
    case DType::kP31:
      Trainer<P31>(model, train, parameters, batches, sink).Run();
      return;
    default:
      throw InvalidArgument("the reference computes in f64 or a field, not in {}", Name(dtype));
  }
}

}  // namespace plumbline
