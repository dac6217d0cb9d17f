#include "tests/scenarios/evidence_testing.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/rng.h"

namespace plumbline {
namespace {

ParallelConfig Layout() {
  ParallelConfig parallel;
  parallel.tp = 2;
  parallel.dp = 3;
  return parallel;
}

void MarkWrong(Evidence& evidence) {
  evidence.deviation = 0;
  for (RankPiece& piece : evidence.pieces) {
    const Values right = Pick(evidence.reference, piece.index);
    double worst = 0;
    for (size_t i = 0; i < right.size(); ++i) {
      worst = std::max(worst, Distance(piece.values[i], right[i]) / evidence.scale);
    }
    piece.wrong = !(worst <= evidence.bound);
    evidence.deviation = std::max(evidence.deviation, worst);
  }
}

}  // namespace

const Mesh& TestMesh() {
  static const Mesh mesh(Layout());
  return mesh;
}

Values RandomValues(size_t count, uint64_t stream) {
  const RandomStream random = DataStream(stream, "evidence");
  Values values(count);
  for (size_t i = 0; i < count; ++i) values[i] = 2 * random.Uniform(i) - 1;
  return values;
}

Evidence MakeEvidence(const Shape& shape, std::vector<AxisPlacement> placements) {
  Evidence evidence;
  evidence.shape = shape;
  evidence.mesh = &TestMesh();
  evidence.site.tensor = "t";
  evidence.reference = RandomValues(static_cast<size_t>(ElementsOf(shape)), 1);
  for (const Number& value : evidence.reference) {
    evidence.scale = std::max(evidence.scale, std::abs(value.real()));
  }
  evidence.bound = 1e-11;
  evidence.numbers = {
      {2, "tp", "tp"},           {0.5, "1/tp", "tp"}, {3, "dp", "dp"}, {1.0 / 3, "1/dp", "dp"},
      {-1.0 / 3, "-1/dp", "dp"}, {1, "", ""},         {-1, "", ""},    {4, "", ""}};
  const LogicalTensor tensor = {"t", shape, std::move(placements)};
  for (int rank = 0; rank < TestMesh().world_size(); ++rank) {
    RankPiece piece;
    piece.rank = rank;
    piece.index = PieceOf(tensor, TestMesh(), rank).global_index;
    piece.values = Pick(evidence.reference, piece.index);
    evidence.pieces.push_back(std::move(piece));
  }
  return evidence;
}

void Hold(Evidence& evidence, const std::function<Values(const RankPiece&)>& held) {
  for (RankPiece& piece : evidence.pieces) piece.values = held(piece);
  MarkWrong(evidence);
}

void HoldOnRank(Evidence& evidence, int rank, const Values& held) {
  for (RankPiece& piece : evidence.pieces) {
    if (piece.rank == rank) piece.values = held;
  }
  MarkWrong(evidence);
}

}  // namespace plumbline
