// The sum of contributions that stand for different, overlapping parts of one tensor.
//
// Numerics: one addition per contribution and element, in the order of the terms, in their dtype.
#ifndef PLUMBLINE_SCENARIOS_SCATTERED_SUM_H_
#define PLUMBLINE_SCENARIOS_SCATTERED_SUM_H_

#include <cstdint>
#include <vector>

#include "base/tensor.h"
#include "scenarios/layout_plan.h"

namespace plumbline {

struct SumTerm {
  const Tensor* values = nullptr;  // row-major
  const std::vector<IndexRun>* runs = nullptr;
};

// The elements that some term stands for, in the order of the whole tensor.
struct ScatteredSum {
  Tensor values;
  std::vector<int64_t> global_index;
};

// At least one term; one dtype.
ScatteredSum AddScattered(const std::vector<SumTerm>& terms, int64_t elements);

}  // namespace plumbline

#endif  // PLUMBLINE_SCENARIOS_SCATTERED_SUM_H_
