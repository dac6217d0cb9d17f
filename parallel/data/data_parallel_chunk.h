// One model chunk's gradients and weights over data-parallel ranks, from the first microbatch of a
// step to the weights of the next.
#ifndef PLUMBLINE_PARALLEL_DATA_DATA_PARALLEL_CHUNK_H_
#define PLUMBLINE_PARALLEL_DATA_DATA_PARALLEL_CHUNK_H_

#include <cstdint>

#include "parallel/tensor/parameter.h"
#include "parallel/tensor/unit_hooks.h"

namespace plumbline {

class DataParallelChunk : public GradientSink, public UnitHooks {
 public:
  virtual void BeginStep(int64_t step) = 0;
  // Gradients that come from here on are those of this of the step's microbatches.
  virtual void BeginBackward(int microbatch) = 0;
  // Each parameter's owned_grad is complete over data-parallel ranks afterwards.
  virtual void FinishGradSync() = 0;
  // Brings updated weights to whoever lacks them, or begins to.
  virtual void StartParamSync() = 0;
  // Weights are complete afterwards, on all that keep them between steps.
  virtual void FinishParamSync() = 0;
};

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_DATA_DATA_PARALLEL_CHUNK_H_
