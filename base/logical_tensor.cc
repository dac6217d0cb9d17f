#include "base/logical_tensor.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace plumbline {
namespace {

enum class Kind : uint8_t { kSegments, kZigZag, kPaddedBlock, kRows, kFlatten, kRange };

}  // namespace

struct ShardStep::Rule {
  Kind kind = Kind::kSegments;
  int64_t axis = 0;
  int64_t segments = 1;
  std::vector<std::vector<int64_t>> rows;
  std::vector<int64_t> offsets;
};

namespace {

// Which part of how many, and whose, for the messages.
struct Cut {
  int64_t part;
  int64_t parts;
  const std::string& tensor;
  const std::string& axis;
};

// Along one dimension of the local space: the positions in the space before the cut; -1: padding.
using Positions = std::vector<int64_t>;

void AppendRange(Positions& positions, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) positions.push_back(i);
}

// Throws unless `extent` splits evenly.
void CheckDivides(int64_t extent, int64_t pieces, const ShardStep::Rule& rule, const Cut& cut) {
  if (extent % pieces == 0) return;
  throw InvalidArgument("tensor {}: dimension {} of extent {} does not split into {} for {} {}",
                        cut.tensor, rule.axis, extent, pieces, cut.axis, cut.parts);
}

Positions SegmentsPositions(int64_t extent, const ShardStep::Rule& rule, const Cut& cut) {
  CheckDivides(extent, rule.segments * cut.parts, rule, cut);
  const int64_t segment = extent / rule.segments;
  const int64_t block = segment / cut.parts;
  Positions positions;
  for (int64_t s = 0; s < rule.segments; ++s) {
    const int64_t begin = s * segment + cut.part * block;
    AppendRange(positions, begin, begin + block);
  }
  return positions;
}

Positions ZigZagPositions(int64_t extent, const ShardStep::Rule& rule, const Cut& cut) {
  CheckDivides(extent, 2 * cut.parts, rule, cut);
  const int64_t chunk = extent / (2 * cut.parts);
  const int64_t mirrored = 2 * cut.parts - 1 - cut.part;
  Positions positions;
  AppendRange(positions, cut.part * chunk, (cut.part + 1) * chunk);
  AppendRange(positions, mirrored * chunk, (mirrored + 1) * chunk);
  return positions;
}

// [begin, end) of a dimension, with padding from its extent on.
Positions PaddedPositions(int64_t extent, int64_t begin, int64_t end) {
  Positions positions;
  AppendRange(positions, std::min(begin, extent), std::min(end, extent));
  positions.resize(static_cast<size_t>(end - begin), -1);
  return positions;
}

Positions RowsPositions(int64_t extent, const ShardStep::Rule& rule, const Cut& cut) {
  if (static_cast<int64_t>(rule.rows.size()) != cut.parts) {
    throw InvalidArgument("tensor {}: rows for {} parts, but {} has {}", cut.tensor,
                          rule.rows.size(), cut.axis, cut.parts);
  }
  const Positions& rows = rule.rows[static_cast<size_t>(cut.part)];
  for (int64_t row : rows) {
    if (row < 0 || row >= extent) {
      throw InvalidArgument("tensor {}: row {} of dimension {} of extent {}, for {} {}", cut.tensor,
                            row, rule.axis, extent, cut.axis, cut.part);
    }
  }
  return rows;
}

Positions RangePositions(int64_t extent, const ShardStep::Rule& rule, const Cut& cut) {
  const std::vector<int64_t>& offsets = rule.offsets;
  if (static_cast<int64_t>(offsets.size()) != cut.parts + 1) {
    throw InvalidArgument("tensor {}: {} offsets, but {} has {} parts, which take {}", cut.tensor,
                          offsets.size(), cut.axis, cut.parts, cut.parts + 1);
  }
  if (offsets[0] < 0 || !std::is_sorted(offsets.begin(), offsets.end())) {
    throw InvalidArgument("tensor {}: offsets over {} must start at 0 or above and never decrease",
                          cut.tensor, cut.axis);
  }
  const size_t part = static_cast<size_t>(cut.part);
  return PaddedPositions(extent, offsets[part], offsets[part + 1]);
}

Positions PositionsOf(int64_t extent, const ShardStep::Rule& rule, const Cut& cut) {
  switch (rule.kind) {
    case Kind::kSegments:
      return SegmentsPositions(extent, rule, cut);
    case Kind::kZigZag:
      return ZigZagPositions(extent, rule, cut);
    case Kind::kPaddedBlock: {
      const int64_t block = (extent + cut.parts - 1) / cut.parts;
      return PaddedPositions(extent, cut.part * block, (cut.part + 1) * block);
    }
    case Kind::kRows:
      return RowsPositions(extent, rule, cut);
    case Kind::kRange:
      return RangePositions(extent, rule, cut);
    case Kind::kFlatten:
      break;
  }
  throw Internal("a flattening has no positions");
}

// A local space: one list of source positions per dimension, whose outer product says which
// elements it holds. The source is the global shape, or after a flattening the elements in a row.
struct Space {
  std::vector<Positions> dimensions;
  std::vector<int64_t> strides;  // of the source
};

Space WholeSpace(const Shape& global_shape) {
  Space space;
  space.strides.assign(global_shape.size(), 1);
  for (size_t d = global_shape.size(); d-- > 1;) {
    space.strides[d - 1] = space.strides[d] * global_shape[d];
  }
  for (int64_t extent : global_shape) {
    space.dimensions.emplace_back(static_cast<size_t>(extent));
    std::iota(space.dimensions.back().begin(), space.dimensions.back().end(), 0);
  }
  return space;
}

bool Consecutive(const Positions& positions) {
  for (size_t i = 0; i < positions.size(); ++i) {
    if (positions[i] != positions[0] + static_cast<int64_t>(i)) return false;
  }
  return positions.empty() || positions[0] >= 0;
}

// The global index of each element, row-major in the local space.
std::vector<int64_t> Elements(const Space& space) {
  if (space.dimensions.empty()) return {0};
  size_t elements = 1;
  for (const Positions& positions : space.dimensions) elements *= positions.size();
  std::vector<int64_t> result(elements);
  if (elements == 0) return result;
  const size_t last = space.dimensions.size() - 1;
  const Positions& inner = space.dimensions[last];
  const bool consecutive = Consecutive(inner);
  std::vector<size_t> index(last, 0);
  for (size_t out = 0; out < elements; out += inner.size()) {
    int64_t base = 0;
    bool padding = false;
    for (size_t d = 0; d < last; ++d) {
      const int64_t position = space.dimensions[d][index[d]];
      padding = padding || position < 0;
      base += position * space.strides[d];
    }
    if (padding) {
      std::fill_n(result.begin() + out, inner.size(), -1);
    } else if (consecutive) {
      std::iota(result.begin() + out, result.begin() + out + inner.size(), base + inner[0]);
    } else {
      for (size_t i = 0; i < inner.size(); ++i) {
        result[out + i] = inner[i] < 0 ? -1 : base + inner[i];
      }
    }
    for (size_t d = last; d-- > 0;) {
      if (++index[d] < space.dimensions[d].size()) break;
      index[d] = 0;
    }
  }
  return result;
}

void Apply(const ShardStep::Rule& rule, const Cut& cut, Space& space) {
  if (rule.kind == Kind::kFlatten) {
    Positions flat = Elements(space);
    space.dimensions.assign(1, std::move(flat));
    space.strides.assign(1, 1);
    return;
  }
  const int64_t dims = static_cast<int64_t>(space.dimensions.size());
  const int64_t axis = rule.axis < 0 ? rule.axis + dims : rule.axis;
  if (axis < 0 || axis >= dims) {
    throw InvalidArgument("tensor {}: {} cuts dimension {} of {}", cut.tensor, cut.axis, rule.axis,
                          dims);
  }
  if (rule.kind == Kind::kRange && dims != 1) {
    throw InvalidArgument("tensor {}: a range over {} needs a flattening before it", cut.tensor,
                          cut.axis);
  }
  Positions& dimension = space.dimensions[static_cast<size_t>(axis)];
  Positions positions = PositionsOf(static_cast<int64_t>(dimension.size()), rule, cut);
  for (int64_t& position : positions) {
    if (position >= 0) position = dimension[static_cast<size_t>(position)];
  }
  dimension = std::move(positions);
}

std::vector<std::string_view> SplitAxes(std::string_view axes) {
  std::vector<std::string_view> names;
  while (true) {
    const size_t dash = axes.find('-');
    names.push_back(axes.substr(0, dash));
    if (dash == std::string_view::npos) return names;
    axes.remove_prefix(dash + 1);
  }
}

}  // namespace

ShardStep ShardStep::Block(int64_t axis) { return Segments(axis, 1); }

ShardStep ShardStep::Segments(int64_t axis, int64_t segments) {
  if (segments < 1) throw InvalidArgument("{} segments of dimension {}", segments, axis);
  return ShardStep(std::make_shared<const Rule>(Rule{Kind::kSegments, axis, segments, {}, {}}));
}

ShardStep ShardStep::ZigZag(int64_t axis) {
  return ShardStep(std::make_shared<const Rule>(Rule{Kind::kZigZag, axis, 1, {}, {}}));
}

ShardStep ShardStep::PaddedBlock(int64_t axis) {
  return ShardStep(std::make_shared<const Rule>(Rule{Kind::kPaddedBlock, axis, 1, {}, {}}));
}

ShardStep ShardStep::Rows(int64_t axis, std::vector<std::vector<int64_t>> rows_of_part) {
  return ShardStep(
      std::make_shared<const Rule>(Rule{Kind::kRows, axis, 1, std::move(rows_of_part), {}}));
}

ShardStep ShardStep::Flatten() {
  return ShardStep(std::make_shared<const Rule>(Rule{Kind::kFlatten, 0, 1, {}, {}}));
}

ShardStep ShardStep::Range(std::vector<int64_t> offsets) {
  return ShardStep(std::make_shared<const Rule>(Rule{Kind::kRange, 0, 1, {}, std::move(offsets)}));
}

AxisPlacement Sharded(std::string axis, std::vector<ShardStep> steps) {
  return {std::move(axis), PlacementKind::kSharded, std::move(steps)};
}

AxisPlacement Partial(std::string axis) { return {std::move(axis), PlacementKind::kPartial, {}}; }

LocalPiece PieceOf(const LogicalTensor& tensor, const Mesh& mesh, int global_rank) {
  const int64_t global_elements = ElementsOf(tensor.global_shape);
  Space space = WholeSpace(tensor.global_shape);
  for (const AxisPlacement& placement : tensor.placements) {
    if (placement.kind != PlacementKind::kSharded) continue;
    const Group& group = mesh.GroupOf(placement.axis, global_rank);
    const Cut cut = {group.IndexOf(global_rank), group.size(), tensor.name, placement.axis};
    for (const ShardStep& step : placement.steps) Apply(step.rule(), cut, space);
  }
  LocalPiece piece;
  for (const Positions& positions : space.dimensions) {
    piece.local_shape.push_back(static_cast<int64_t>(positions.size()));
  }
  piece.global_index = Elements(space);
  piece.whole = static_cast<int64_t>(piece.global_index.size()) == global_elements &&
                (global_elements == 0 || piece.global_index[0] == 0) &&
                Consecutive(piece.global_index);
  return piece;
}

bool IsPartialOver(const LogicalTensor& tensor, std::string_view axis) {
  const std::vector<std::string_view> asked = SplitAxes(axis);
  return std::all_of(asked.begin(), asked.end(), [&](std::string_view name) {
    return std::any_of(tensor.placements.begin(), tensor.placements.end(),
                       [&](const AxisPlacement& placement) {
                         const std::vector<std::string_view> names = SplitAxes(placement.axis);
                         return placement.kind == PlacementKind::kPartial &&
                                std::find(names.begin(), names.end(), name) != names.end();
                       });
  });
}

}  // namespace plumbline
