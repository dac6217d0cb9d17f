// A tensor of the whole model, and which of its elements each rank holds.
//
// Per mesh axis a tensor has a placement. A shard's map from local to global indices is data: an
// ordered composition of ShardSteps, each acting on the local space that the previous one left.
#ifndef PLUMBLINE_BASE_LOGICAL_TENSOR_H_
#define PLUMBLINE_BASE_LOGICAL_TENSOR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mesh.h"
#include "base/tensor.h"

namespace plumbline {

// One step from a space to one part's piece of it. Immutable.
class ShardStep {
 public:
  // Part i of n equal contiguous blocks of `axis`. The extent must divide.
  static ShardStep Block(int64_t axis);
  // The axis is `segments` equal segments (gate and up rows of SwiGLU: 2); each is cut in n blocks,
  // and part i holds block i of each, in order.
  static ShardStep Segments(int64_t axis, int64_t segments);
  // Context-parallel zig-zag: 2n chunks, part i holds chunks i and 2n-1-i.
  static ShardStep ZigZag(int64_t axis);
  // The axis padded at its end to a multiple of n, then block i; positions past the end are padding
  // (global index -1).
  static ShardStep PaddedBlock(int64_t axis);
  // Part i holds rows[i] of the axis, in that order. Parts may overlap (replicated K/V heads).
  static ShardStep Rows(int64_t axis, std::vector<std::vector<int64_t>> rows_of_part);
  // All dimensions become one; no cut.
  static ShardStep Flatten();
  // On a flat space: part i holds [offsets[i], offsets[i+1]), positions past the end are padding.
  static ShardStep Range(std::vector<int64_t> offsets);

  struct Rule;  // what the kind means; in the .cc
  const Rule& rule() const { return *rule_; }

 private:
  explicit ShardStep(std::shared_ptr<const Rule> rule) : rule_(std::move(rule)) {}
  std::shared_ptr<const Rule> rule_;
};

enum class PlacementKind : uint8_t { kReplicated, kSharded, kPartial };

// What one mesh axis does to a tensor. Axes that are not listed replicate.
struct AxisPlacement {
  std::string axis;  // "tp", "dp", "tp-cp" ...
  PlacementKind kind = PlacementKind::kReplicated;
  std::vector<ShardStep>
      steps;  // kSharded: cut in this order, all with this axis' extent and coordinate
};

AxisPlacement Sharded(std::string axis, std::vector<ShardStep> steps);
AxisPlacement Partial(std::string axis);

// A name as Megatron-Core spells it, a global shape, and the placements, applied in order.
struct LogicalTensor {
  std::string name;
  Shape global_shape;
  std::vector<AxisPlacement> placements;
};

// One rank's piece: its local shape and, element by element in row-major order, the global
// row-major index (-1: padding).
struct LocalPiece {
  Shape local_shape;
  std::vector<int64_t> global_index;
  // global_index is 0, 1, 2, ...: the rank holds everything, in order.
  bool whole = false;
};

// Throws InvalidArgument naming the tensor, axis and extent when a cut does not fit.
LocalPiece PieceOf(const LogicalTensor& tensor, const Mesh& mesh, int global_rank);

// Whether the pieces of the ranks along `axis` (or each axis of a product, as "dp-cp") must be
// summed. Over the axes where this is false and that shard nothing, they are copies.
bool IsPartialOver(const LogicalTensor& tensor, std::string_view axis);

}  // namespace plumbline

#endif  // PLUMBLINE_BASE_LOGICAL_TENSOR_H_
