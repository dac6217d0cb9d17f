// Evidence made by hand: what 2 x 3 ranks hold of a tensor of random numbers.
#ifndef PLUMBLINE_TESTS_SCENARIOS_EVIDENCE_TESTING_H_
#define PLUMBLINE_TESTS_SCENARIOS_EVIDENCE_TESTING_H_

#include <functional>
#include <vector>

#include "base/logical_tensor.h"
#include "scenarios/evidence.h"

namespace plumbline {

// tp 2 (fastest) and dp 3, so that no two axes have the same size.
const Mesh& TestMesh();

// Numbers between -1 and 1 that nothing relates to one another; another `stream`, other numbers.
Values RandomValues(size_t count, uint64_t stream);

// All ranks hold what the placements give them of a random reference; nothing is wrong yet.
Evidence MakeEvidence(const Shape& shape, std::vector<AxisPlacement> placements);

// What each rank holds becomes `held`; the ranks for which that differs from the reference are
// wrong, and the deviation is set.
void Hold(Evidence& evidence, const std::function<Values(const RankPiece&)>& held);
// The same for one rank; the others stay.
void HoldOnRank(Evidence& evidence, int rank, const Values& held);

}  // namespace plumbline

#endif  // PLUMBLINE_TESTS_SCENARIOS_EVIDENCE_TESTING_H_
