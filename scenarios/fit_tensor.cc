#include "scenarios/fit_tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

namespace plumbline {
namespace {

// A candidate is only looked for where a chance hit is out of the question.
constexpr size_t kFewestElements = 4;

bool Near(const Evidence& evidence, const Number& a, const Number& b) {
  const double bounds = evidence.noise > 0 ? 1 : 100;
  return Distance(a, b) <= bounds * evidence.bound * evidence.scale;
}

// The rank whose piece a wrong rank holds; all wrong ranks must be off by the same number of places
// along one axis.
std::optional<Formula> FitNeighbour(const Evidence& evidence, const std::string& axis) {
  const Mesh& mesh = *evidence.mesh;
  const Values actual = StackActual(evidence);
  for (int distance = 1; distance < mesh.extent(axis); ++distance) {
    std::string example;
    const auto held = Stack(evidence, [&](const RankPiece& piece) -> std::optional<Values> {
      const Group& group = mesh.GroupOf(axis, piece.rank);
      const int place = (group.IndexOf(piece.rank) + distance) % group.size();
      const int rank = group.members[static_cast<size_t>(place)];
      const RankPiece* other = evidence.PieceOfRank(rank);
      if (other == nullptr || other->index == piece.index) return std::nullopt;
      if (example.empty()) example = fmt::format("rank {} holds rank {}'s", piece.rank, rank);
      return Pick(evidence.reference, other->index);
    });
    if (!held) continue;
    Formula formula;
    formula.residual = ResidualOf(evidence, actual, *held);
    if (!Explains(evidence, formula.residual)) continue;
    formula.text = fmt::format("actual = the piece of {} {} further ({})", axis, distance, example);
    formula.axes = axis;
    formula.cause = "an offset of a shard";
    return formula;
  }
  return std::nullopt;
}

// The tensor of the whole model as the ranks hold it, wrong ranks first.
std::optional<Values> Assemble(const Evidence& evidence) {
  Values whole(evidence.reference.size(), 0.0);
  std::vector<bool> held(whole.size(), false);
  for (const bool wrong : {true, false}) {
    for (const RankPiece& piece : evidence.pieces) {
      if (piece.wrong != wrong) continue;
      for (size_t i = 0; i < piece.index.size(); ++i) {
        if (piece.index[i] < 0) continue;
        const auto global = static_cast<size_t>(piece.index[i]);
        if (held[global]) continue;
        held[global] = true;
        whole[global] = piece.values[i];
      }
    }
  }
  if (std::find(held.begin(), held.end(), false) != held.end()) return std::nullopt;
  return whole;
}

// One axis of a row-major tensor, cut into blocks.
struct BlockedAxis {
  int64_t outer;   // positions before the axis
  int64_t blocks;  // of the axis
  int64_t block;   // elements of one block, later axes included

  int64_t At(int64_t position, int64_t which) const { return (position * blocks + which) * block; }
};

bool SameBlock(const Evidence& evidence, const Values& actual, const BlockedAxis& axis,
               int64_t block, int64_t source) {
  for (int64_t position = 0; position < axis.outer; ++position) {
    const auto a = static_cast<size_t>(axis.At(position, block));
    const auto r = static_cast<size_t>(axis.At(position, source));
    for (size_t i = 0; i < static_cast<size_t>(axis.block); ++i) {
      if (!Near(evidence, actual[a + i], evidence.reference[r + i])) return false;
    }
  }
  return true;
}

// Which block of the reference each block of `actual` is; nothing unless it is a permutation.
std::optional<std::vector<int64_t>> OrderOfBlocks(const Evidence& evidence, const Values& actual,
                                                  const BlockedAxis& axis) {
  std::vector<int64_t> order;
  std::vector<bool> used(static_cast<size_t>(axis.blocks), false);
  for (int64_t block = 0; block < axis.blocks; ++block) {
    int64_t found = -1;
    for (int64_t source = 0; source < axis.blocks && found < 0; ++source) {
      if (!used[static_cast<size_t>(source)] && SameBlock(evidence, actual, axis, block, source)) {
        found = source;
      }
    }
    if (found < 0) return std::nullopt;
    used[static_cast<size_t>(found)] = true;
    order.push_back(found);
  }
  if (std::is_sorted(order.begin(), order.end())) return std::nullopt;  // as it should be
  return order;
}

std::string ShortList(const std::vector<int64_t>& numbers) {
  constexpr size_t kShown = 16;
  std::string text;
  for (size_t i = 0; i < std::min(numbers.size(), kShown); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ",", numbers[i]);
  }
  return numbers.size() > kShown ? text + ",.." : text;
}

std::optional<Formula> FitTranspose(const Evidence& evidence, const Values& actual) {
  if (evidence.shape.size() != 2 || evidence.shape[0] != evidence.shape[1]) return std::nullopt;
  const auto n = static_cast<size_t>(evidence.shape[0]);
  Values transposed(actual.size());
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) transposed[i * n + j] = evidence.reference[j * n + i];
  }
  Formula formula;
  formula.residual = ResidualOf(evidence, actual, transposed);
  if (!Explains(evidence, formula.residual)) return std::nullopt;
  formula.text = "actual = transpose of reference";
  formula.cause = "a weight that is stored transposed";
  return formula;
}

}  // namespace

std::optional<Formula> FitStale(const Evidence& evidence) {
  const Values actual = StackActual(evidence);
  for (const NamedTensor& stale : evidence.stale) {
    Formula formula;
    formula.residual = ResidualOf(evidence, actual, StackWhole(evidence, stale.values));
    if (!Explains(evidence, formula.residual)) continue;
    formula.text = fmt::format("actual = the reference's value of {}", stale.name);
    formula.cause = "a buffer that is not updated, or read too early";
    return formula;
  }
  return std::nullopt;
}

std::optional<Formula> FitShard(const Evidence& evidence) {
  if (evidence.reference.size() < kFewestElements) return std::nullopt;
  for (const char* axis : {"tp", "cp", "dp", "pp"}) {
    if (auto formula = FitNeighbour(evidence, axis)) return formula;
  }
  return std::nullopt;
}

// Where a shifted element falls outside, anything goes.
std::optional<Formula> FitShift(const Evidence& evidence) {
  if (evidence.reference.size() < kFewestElements) return std::nullopt;
  const RankPiece* first = nullptr;
  for (const RankPiece& piece : evidence.pieces) {
    if (piece.wrong && first == nullptr) first = &piece;
  }
  if (first == nullptr || first->index.empty() || first->index[0] < 0) return std::nullopt;
  constexpr int kTries = 16;
  int tries = 0;
  const auto size = static_cast<int64_t>(evidence.reference.size());
  const Values actual = StackActual(evidence);
  for (int64_t at = 0; at < size && tries < kTries; ++at) {
    const int64_t shift = at - first->index[0];
    if (shift == 0 ||
        !Near(evidence, evidence.reference[static_cast<size_t>(at)], first->values[0])) {
      continue;
    }
    ++tries;
    size_t inside = 0;
    const Values shifted = *Stack(evidence, [&](const RankPiece& piece) -> std::optional<Values> {
      Values values = piece.values;
      for (size_t i = 0; i < values.size(); ++i) {
        const int64_t source = piece.index[i] + shift;
        if (piece.index[i] < 0 || source < 0 || source >= size) continue;
        values[i] = evidence.reference[static_cast<size_t>(source)];
        ++inside;
      }
      return values;
    });
    Formula formula;
    formula.residual = ResidualOf(evidence, actual, shifted);
    if (inside < kFewestElements || 2 * inside < actual.size()) continue;
    if (!Explains(evidence, formula.residual)) continue;
    formula.text = fmt::format("actual = reference shifted by {} elements", shift);
    formula.cause = "a boundary of a shard, or an offset into a buffer";
    return formula;
  }
  return std::nullopt;
}

std::optional<Formula> FitAdded(const Evidence& evidence) {
  const Values actual = StackActual(evidence);
  const Values difference = AddScaled(actual, -1, StackReference(evidence));
  for (const NamedTensor& other : evidence.others) {
    const Values added = StackWhole(evidence, other.values);
    for (const bool alone : {false, true}) {
      const Values& explained = alone ? actual : difference;
      const std::optional<NamedNumber> k =
          Recognise(evidence, FactorBetween(explained, added), NumberUse::kAdded);
      if (!k || k->value == 0.0) continue;
      Formula formula;
      formula.residual = ResidualOf(evidence, explained, Scaled(k->value, added));
      if (!Explains(evidence, formula.residual)) continue;
      formula.axes = k->axis;
      if (alone) {
        formula.text =
            fmt::format("actual = {}{}", k->value == 1.0 ? "" : ToString(*k) + " * ", other.name);
        formula.cause = "a product or a sum that is lost, or another buffer";
      } else {
        formula.text = fmt::format("actual = reference {}{}", SignedFactor(*k), other.name);
        formula.cause = Negative(*k) ? "a term that is left out" : "a term that is added again";
      }
      return formula;
    }
  }
  return std::nullopt;
}

std::optional<Formula> FitPermutation(const Evidence& evidence) {
  if (evidence.reference.size() < kFewestElements) return std::nullopt;
  const std::optional<Values> actual = Assemble(evidence);
  if (!actual) return std::nullopt;
  if (auto formula = FitTranspose(evidence, *actual)) return formula;
  constexpr int64_t kMostBlocks = 512;
  int64_t outer = 1;
  int64_t inner = static_cast<int64_t>(actual->size());
  for (size_t d = 0; d < evidence.shape.size(); ++d) {
    const int64_t extent = evidence.shape[d];
    inner /= extent;
    for (int64_t blocks = 2; blocks <= std::min(extent, kMostBlocks); ++blocks) {
      if (extent % blocks != 0) continue;
      const BlockedAxis axis = {outer, blocks, extent / blocks * inner};
      const auto order = OrderOfBlocks(evidence, *actual, axis);
      if (!order) continue;
      Formula formula;
      formula.residual = 0;
      formula.text = fmt::format("actual = reference with blocks of {} along axis {} in order {}",
                                 extent / blocks, d, ShortList(*order));
      formula.cause = "an index map: QKV or gate/up interleave, heads, sequence chunks";
      return formula;
    }
    outer *= extent;
  }
  return std::nullopt;
}

}  // namespace plumbline
