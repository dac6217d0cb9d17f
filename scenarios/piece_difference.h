// The inner loops of the comparison: one rank's piece against the tensor of the whole model.
//
// Numerics: differences are taken in f64 after the piece was multiplied by `factor`. NaN matches
//           only NaN, an infinity only itself. In a field the piece is divided by `divisor`, and
//           elements are equal or not.
#ifndef PLUMBLINE_SCENARIOS_PIECE_DIFFERENCE_H_
#define PLUMBLINE_SCENARIOS_PIECE_DIFFERENCE_H_

#include <cstdint>
#include <vector>

#include "base/tensor.h"
#include "scenarios/bounds.h"
#include "scenarios/layout_plan.h"
#include "scenarios/number.h"

namespace plumbline {

// What a piece is held against.
struct PieceReference {
  const Tensor& tensor;            // the whole model's, row-major
  double max_abs;                  // its scale
  const AdamExemption& exemption;  // nothing for most tensors
  double factor = 1;               // of the piece
  int64_t divisor = 1;             // of the piece, in a field
  // What each element may be off by beyond the bound, by global index; null: nothing.
  const std::vector<float>* allowance = nullptr;
};

// Element by element: where a piece is off by more than `bound` times the scale.
struct PieceDifference {
  // The worst, leaving out elements that only the exemption lets pass. Infinity when a NaN or an
  // infinity has no match.
  double max_abs_diff = 0;
  // With an allowance the worst is the element that takes most of what it may: its difference is
  // max_abs_diff, and this is what that may be.
  double allowed = 0;
  int64_t unequal = 0;  // in a field: how many elements are not equal; max_abs_diff is then 1
  bool within = true;
  // Of the worst, when it is not within: its global index and both values (the actual one times
  // the factor). -1 when within.
  int64_t index = -1;
  Number actual;
  Number reference;
  int64_t first_nonfinite = -1;  // global index: NaN or infinity where the reference has none
};

// `local` is row-major and has the dtype that the parallel program computes in; the reference has
// that of a field, else f64. Runs stay inside both tensors.
PieceDifference DifferenceOf(const Tensor& local, const std::vector<IndexRun>& runs,
                             const PieceReference& reference, double bound);

}  // namespace plumbline

#endif  // PLUMBLINE_SCENARIOS_PIECE_DIFFERENCE_H_
