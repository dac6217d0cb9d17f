// How a rank's piece lies in the tensor of the whole model, as runs that a loop can follow.
#ifndef PLUMBLINE_SCENARIOS_LAYOUT_PLAN_H_
#define PLUMBLINE_SCENARIOS_LAYOUT_PLAN_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/probe.h"

namespace plumbline {

// `n` elements that are adjacent both in the piece and in the whole.
struct IndexRun {
  int64_t local = 0;
  int64_t global = 0;
  int64_t n = 0;
};

// Maximal runs; padding is in none.
std::vector<IndexRun> RunsOf(const std::vector<int64_t>& global_index);

struct LayoutPlan {
  std::vector<IndexRun> runs;
  int64_t elements = 0;    // of the piece, with padding
  int64_t values = 0;      // without
  int64_t global_end = 0;  // one past the largest global index
  // Pieces with the same global indices in the same order have the same number: they are replicas.
  int piece = 0;
  std::string partial_over;  // axes over which contributions are to be summed, as "tp" or "tp-cp"
};

// Plans by layout. A layout is known by its address; it lives as long as the run.
class LayoutPlans {
 public:
  const LayoutPlan& Of(const ObservedLayout& layout);
  // Of a piece that no rank holds as such, with these global indices.
  const LayoutPlan& OfIndices(const std::vector<int64_t>& global_index);
  // The plan that first had this piece number.
  const LayoutPlan& OfPiece(int piece) const { return *plan_of_piece_[static_cast<size_t>(piece)]; }

 private:
  struct Known {
    const int64_t* index_data = nullptr;
    size_t index_size = 0;
    std::string name;
    const LayoutPlan* plan = nullptr;
  };
  const LayoutPlan& Make(const ObservedLayout& layout);
  const LayoutPlan& Finish(LayoutPlan plan);

  std::deque<LayoutPlan> plans_;
  std::unordered_map<const ObservedLayout*, Known> known_;
  std::map<std::vector<int64_t>, const LayoutPlan*> by_indices_;
  std::map<std::pair<uint64_t, uint64_t>, int> piece_of_hash_;
  std::vector<const LayoutPlan*> plan_of_piece_;
};

}  // namespace plumbline

#endif  // PLUMBLINE_SCENARIOS_LAYOUT_PLAN_H_
