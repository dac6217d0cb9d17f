// What the pieces of one tensor say together: whether replicas are equal, whether shared elements
// are, and whether they cover the whole.
#ifndef PLUMBLINE_SCENARIOS_PIECE_SET_H_
#define PLUMBLINE_SCENARIOS_PIECE_SET_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/tensor.h"
#include "scenarios/layout_plan.h"

namespace plumbline {

// One rank has shown its piece. The hash is of the bytes (XXH3-128).
struct PieceReport {
  int rank = -1;
  int piece = -1;  // LayoutPlan::piece
  uint64_t hash_low = 0;
  uint64_t hash_high = 0;
};

// `local` is row-major.
PieceReport ReportOf(int rank, const LayoutPlan& plan, const Tensor& local);

struct ReplicaCheck {
  bool any = false;  // some piece was shown by more than one rank
  std::vector<int>
      unequal;  // ranks that differ from most of their replicas (a tie: from the first)
};
// Sorts the reports by piece and rank.
ReplicaCheck CheckReplicas(std::vector<PieceReport>& reports);

// Elements that different pieces share (replicated K/V heads): the first to show one is kept.
class Overlay {
 public:
  Overlay(int64_t elements, size_t element_bytes);
  // The pieces of one tensor, each once.
  void Add(int rank, const std::vector<IndexRun>& runs, const Tensor& local);

  bool shared() const { return shared_; }             // some element was in two pieces
  int unequal_rank() const { return unequal_rank_; }  // the first that differed, or -1
  int unequal_to() const { return unequal_to_; }      // from this rank,
  int64_t index() const { return index_; }            // at this element

 private:
  size_t element_bytes_;
  std::vector<std::byte> bytes_;
  std::vector<int32_t> owner_;
  bool shared_ = false;
  int unequal_rank_ = -1;
  int unequal_to_ = -1;
  int64_t index_ = -1;
};

// Whether sets of pieces cover a tensor. Answers are remembered: the same sets come at each step.
class Coverage {
 public:
  explicit Coverage(const LayoutPlans& plans) : plans_(plans) {}
  // The first element that none of the pieces holds, or -1.
  int64_t FirstMissing(const std::vector<PieceReport>& reports, int64_t elements);

 private:
  const LayoutPlans& plans_;
  std::map<std::pair<std::vector<int>, int64_t>, int64_t> answers_;
};

}  // namespace plumbline

#endif  // PLUMBLINE_SCENARIOS_PIECE_SET_H_
