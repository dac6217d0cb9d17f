#include "scenarios/layout_plan.h"

#include <xxhash.h>

#include <algorithm>

#include "base/error.h"

namespace plumbline {

std::vector<IndexRun> RunsOf(const std::vector<int64_t>& global_index) {
  std::vector<IndexRun> runs;
  const auto n = static_cast<int64_t>(global_index.size());
  for (int64_t i = 0; i < n;) {
    const int64_t first = global_index[static_cast<size_t>(i)];
    int64_t end = i + 1;
    if (first >= 0) {
      while (end < n && global_index[static_cast<size_t>(end)] == first + (end - i)) ++end;
      runs.push_back({i, first, end - i});
    }
    i = end;
  }
  return runs;
}

const LayoutPlan& LayoutPlans::Of(const ObservedLayout& layout) {
  Known& known = known_[&layout];
  const std::vector<int64_t>& index = layout.piece.global_index;
  // A layout that died and another at its address would be taken for one another.
  const bool same = known.plan != nullptr && known.index_data == index.data() &&
                    known.index_size == index.size() && known.name == layout.tensor.name;
  if (!same) known = {index.data(), index.size(), layout.tensor.name, &Make(layout)};
  return *known.plan;
}

const LayoutPlan& LayoutPlans::Make(const ObservedLayout& layout) {
  LayoutPlan plan;
  plan.elements = ElementsOf(layout.piece.local_shape);
  if (layout.piece.whole) {
    if (plan.elements > 0) plan.runs = {{0, 0, plan.elements}};
  } else {
    PL_CHECK(static_cast<int64_t>(layout.piece.global_index.size()) == plan.elements);
    plan.runs = RunsOf(layout.piece.global_index);
  }
  for (const AxisPlacement& placement : layout.tensor.placements) {
    if (placement.kind != PlacementKind::kPartial) continue;
    if (!plan.partial_over.empty()) plan.partial_over += '-';
    plan.partial_over += placement.axis;
  }
  return Finish(std::move(plan));
}

const LayoutPlan& LayoutPlans::OfIndices(const std::vector<int64_t>& global_index) {
  const LayoutPlan*& known = by_indices_[global_index];
  if (known == nullptr) {
    LayoutPlan plan;
    plan.elements = static_cast<int64_t>(global_index.size());
    plan.runs = RunsOf(global_index);
    known = &Finish(std::move(plan));
  }
  return *known;
}

const LayoutPlan& LayoutPlans::Finish(LayoutPlan plan) {
  for (const IndexRun& run : plan.runs) {
    plan.values += run.n;
    plan.global_end = std::max(plan.global_end, run.global + run.n);
  }
  // Maximal runs and the number of elements determine the list of indices.
  const XXH128_hash_t hash = XXH3_128bits_withSeed(
      plan.runs.data(), plan.runs.size() * sizeof(IndexRun), static_cast<uint64_t>(plan.elements));
  const auto [found, fresh] = piece_of_hash_.try_emplace(std::make_pair(hash.high64, hash.low64),
                                                         static_cast<int>(plan_of_piece_.size()));
  plan.piece = found->second;
  plans_.push_back(std::move(plan));
  if (fresh) plan_of_piece_.push_back(&plans_.back());
  return plans_.back();
}

}  // namespace plumbline
