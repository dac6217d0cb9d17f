// Called around each unit of a model (embedding, transformer layer, head), so that whoever keeps
// its parameters elsewhere can bring them and take their gradients away.
#ifndef PLUMBLINE_PARALLEL_TENSOR_UNIT_HOOKS_H_
#define PLUMBLINE_PARALLEL_TENSOR_UNIT_HOOKS_H_

#include "parallel/tensor/pass.h"

namespace plumbline {

// Units of a model chunk count from 0 in the order of its forward.
class UnitHooks {
 public:
  virtual ~UnitHooks() = default;
  virtual void BeforeForward(const Pass& pass, int unit) = 0;
  virtual void AfterForward(const Pass& pass, int unit) = 0;
  // A recomputation of the unit's forward lies between both.
  virtual void BeforeBackward(const Pass& pass, int unit) = 0;
  virtual void AfterBackward(const Pass& pass, int unit) = 0;
};

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_TENSOR_UNIT_HOOKS_H_
