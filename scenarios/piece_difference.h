// The inner loops of the comparison: one rank's piece against the tensor of the whole model.
//
// Numerics: differences are taken in f64 after the piece was multiplied by `factor`. NaN matches
//           only NaN, an infinity only itself. An exact dtype is one more ElementComparison, with
//           equality in place of a distance.
#ifndef PLUMBLINE_SCENARIOS_PIECE_DIFFERENCE_H_
#define PLUMBLINE_SCENARIOS_PIECE_DIFFERENCE_H_

#include <cstdint>
#include <vector>

#include "base/tensor.h"
#include "scenarios/bounds.h"
#include "scenarios/layout_plan.h"

namespace plumbline {

// What a piece is held against.
struct PieceReference {
  const Tensor& tensor;            // the whole model's, row-major
  double max_abs;                  // its scale
  const AdamExemption& exemption;  // nothing for most tensors
  double factor = 1;               // of the piece
};

// Element by element: where a piece is off by more than `bound` times the scale.
struct PieceDifference {
  // The worst, leaving out elements that only the exemption lets pass. Infinity when a NaN or an
  // infinity has no match.
  double max_abs_diff = 0;
  bool within = true;
  // Of the worst, when it is not within: its global index and both values (the actual one times
  // the factor). -1 when within.
  int64_t index = -1;
  double actual = 0;
  double reference = 0;
  int64_t first_nonfinite = -1;  // global index: NaN or infinity where the reference has none
};

// `local` is row-major and has the dtype that the parallel program computes in; runs stay inside
// both tensors.
PieceDifference DifferenceOf(const Tensor& local, const std::vector<IndexRun>& runs,
                             const PieceReference& reference, double bound);

}  // namespace plumbline

#endif  // PLUMBLINE_SCENARIOS_PIECE_DIFFERENCE_H_
