#include "base/mesh.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"

namespace plumbline {
namespace {

constexpr std::array<std::string_view, 5> kAxes = {"tp", "cp", "ep", "dp", "pp"};
constexpr int64_t kMaxWorldSize = 65536;

std::vector<std::string> Split(std::string_view text) {
  std::vector<std::string> parts;
  while (true) {
    const size_t dash = text.find('-');
    parts.emplace_back(text.substr(0, dash));
    if (dash == std::string_view::npos) return parts;
    text.remove_prefix(dash + 1);
  }
}

// The names in `order`, then those left out.
std::vector<std::string> FullOrder(const ParallelConfig& config) {
  std::vector<std::string> names = Split(config.order);
  for (size_t i = 0; i < names.size(); ++i) {
    if (std::find(kAxes.begin(), kAxes.end(), names[i]) == kAxes.end()) {
      throw InvalidArgument("order '{}': '{}' is not one of tp, cp, ep, dp, pp", config.order,
                            names[i]);
    }
    if (std::find(names.begin(), names.begin() + i, names[i]) != names.begin() + i) {
      throw InvalidArgument("order '{}' names {} twice", config.order, names[i]);
    }
  }
  for (std::string_view axis : kAxes) {
    if (std::find(names.begin(), names.end(), axis) != names.end()) continue;
    const int extent = axis == "tp"   ? std::max(config.tp, config.expert_tp())
                       : axis == "cp" ? config.cp
                       : axis == "ep" ? config.ep
                       : axis == "dp" ? config.dp
                                      : config.pp;
    if (extent != 1) {
      throw InvalidArgument(
          "order '{}' leaves out {}, whose size is {}; only axes of size 1 may be "
          "left out",
          config.order, axis, extent);
    }
    names.emplace_back(axis);
  }
  return names;
}

void CheckExtents(const ParallelConfig& config) {
  const std::pair<std::string_view, int> extents[] = {
      {"tp", config.tp}, {"cp", config.cp}, {"dp", config.dp},
      {"pp", config.pp}, {"ep", config.ep}, {"etp", config.expert_tp()}};
  for (const auto& [axis, extent] : extents) {
    if (extent < 1) throw InvalidArgument("{} size {}: must be at least 1", axis, extent);
  }
  int64_t ranks = 1;
  for (int extent : {config.tp, config.cp, config.dp, config.pp}) {
    ranks *= extent;
    if (ranks > kMaxWorldSize) {
      throw InvalidArgument("tp {} x cp {} x dp {} x pp {} makes more than {} ranks", config.tp,
                            config.cp, config.dp, config.pp, kMaxWorldSize);
    }
  }
}

}  // namespace

int Group::IndexOf(int global_rank) const {
  const auto found = std::find(members.begin(), members.end(), global_rank);
  return found == members.end() ? -1 : static_cast<int>(found - members.begin());
}

uint64_t HashOfMembers(const std::vector<int>& members) {
  return XXH3_64bits(members.data(), members.size() * sizeof(int));
}

std::string ToString(const Group& group) {
  constexpr size_t kShown = 8;
  if (group.members.size() <= kShown) {
    return fmt::format("{}{{{}}}", group.name, fmt::join(group.members, ","));
  }
  return fmt::format("{}{{{},{},..,{}}}", group.name, group.members[0], group.members[1],
                     group.members.back());
}

Mesh::Mesh(const ParallelConfig& config) : order_(config.order) {
  CheckExtents(config);
  world_size_ = config.world_size();
  const int64_t expert_ranks = int64_t{config.expert_tp()} * config.ep * config.pp;
  const bool experts = config.ep > 1 || config.expert_tp() != config.tp;
  if (world_size_ % expert_ranks != 0) {
    throw InvalidArgument("the world of {} ranks is no multiple of etp {} x ep {} x pp {}",
                          world_size_, config.expert_tp(), config.ep, config.pp);
  }
  const int expert_dp = static_cast<int>(world_size_ / expert_ranks);
  int dense_stride = 1;
  int expert_stride = 1;
  const auto add = [](std::vector<Axis>& grid, std::string name, int extent, int& stride) {
    grid.push_back({std::move(name), extent, stride});
    stride *= extent;
  };
  for (const std::string& name : FullOrder(config)) {
    if (name == "tp") {
      add(dense_, "tp", config.tp, dense_stride);
      add(expert_, "etp", config.expert_tp(), expert_stride);
    } else if (name == "cp") {
      add(dense_, "cp", config.cp, dense_stride);
    } else if (name == "ep") {
      add(expert_, "ep", config.ep, expert_stride);
    } else if (name == "dp") {
      add(dense_, "dp", config.dp, dense_stride);
      add(expert_, "edp", expert_dp, expert_stride);
    } else {
      add(dense_, "pp", config.pp, dense_stride);
      add(expert_, "pp", config.pp, expert_stride);
    }
  }
  const bool same_stages =
      config.pp == 1 || Find(dense_, "pp")->stride == Find(expert_, "pp")->stride;
  if (same_stages) return;
  if (experts) {
    throw InvalidArgument(
        "order '{}': the expert grid would put ranks into other pipeline stages than the dense "
        "grid; let pp come last, or make the expert data-parallel size {} equal dp {}",
        config.order, expert_dp, config.dp);
  }
  expert_.clear();
}

const Mesh::Axis* Mesh::Find(const std::vector<Axis>& grid, std::string_view name) const {
  for (const Axis& axis : grid) {
    if (axis.name == name) return &axis;
  }
  return nullptr;
}

const Mesh::Axis& Mesh::AxisOf(std::string_view name) const {
  if (const Axis* axis = Find(dense_, name)) return *axis;
  if (const Axis* axis = Find(expert_, name)) return *axis;
  if (expert_.empty() && (name == "etp" || name == "ep" || name == "edp")) {
    throw InvalidArgument(
        "axis '{}': order '{}' leaves no expert grid with the dense grid's pipeline stages", name,
        order_);
  }
  throw InvalidArgument("'{}' is no axis; expected tp, cp, dp, pp, etp, ep or edp", name);
}

int Mesh::extent(std::string_view axis) const { return AxisOf(axis).extent; }

int Mesh::CoordinateOf(int global_rank, std::string_view axis) const {
  PL_CHECK(global_rank >= 0);
  PL_CHECK(global_rank < world_size_);
  const Axis& found = AxisOf(axis);
  return global_rank / found.stride % found.extent;
}

Coordinates Mesh::CoordinatesOf(int global_rank) const {
  Coordinates result;
  for (const std::vector<Axis>* grid : {&dense_, &expert_}) {
    for (const Axis& axis : *grid) result[axis.name] = CoordinateOf(global_rank, axis.name);
  }
  return result;
}

int Mesh::RankOf(const Coordinates& dense) const {
  int rank = 0;
  for (const auto& [name, coordinate] : dense) {
    const Axis* axis = Find(dense_, name);
    if (axis == nullptr) {
      throw InvalidArgument("'{}' is no axis of the dense grid; expected tp, cp, dp or pp", name);
    }
    if (coordinate < 0 || coordinate >= axis->extent) {
      throw InvalidArgument("coordinate {} of axis {}, whose size is {}", coordinate, name,
                            axis->extent);
    }
    rank += coordinate * axis->stride;
  }
  return rank;
}

// In mesh order, fastest first.
std::vector<Mesh::Axis> Mesh::AxesOf(std::string_view axes) const {
  const std::vector<std::string> names = Split(axes);
  for (const std::string& name : names) AxisOf(name);
  for (const std::vector<Axis>* grid : {&dense_, &expert_}) {
    std::vector<Axis> found;
    for (const Axis& axis : *grid) {
      if (std::find(names.begin(), names.end(), axis.name) != names.end()) found.push_back(axis);
    }
    if (found.size() == names.size()) return found;
  }
  throw InvalidArgument(
      "'{}' mixes the dense axes tp, cp, dp, pp with the expert axes etp, ep, "
      "edp, or names one twice",
      axes);
}

std::vector<std::vector<int>> Mesh::ProductMembers(std::string_view axes) const {
  const std::vector<Axis> product = AxesOf(axes);
  std::vector<int> offsets = {0};
  for (const Axis& axis : product) {
    const size_t faster = offsets.size();
    for (int i = 1; i < axis.extent; ++i) {
      for (size_t j = 0; j < faster; ++j) offsets.push_back(offsets[j] + i * axis.stride);
    }
  }
  std::vector<std::vector<int>> result;
  for (int rank = 0; rank < world_size_; ++rank) {
    const bool first = std::all_of(product.begin(), product.end(), [&](const Axis& axis) {
      return rank / axis.stride % axis.extent == 0;
    });
    if (!first) continue;
    std::vector<int>& members = result.emplace_back(offsets);
    for (int& member : members) member += rank;
  }
  return result;
}

std::vector<std::vector<int>> Mesh::EmbeddingMembers(bool last_stage) const {
  std::vector<std::vector<int>> result = ProductMembers("pp");
  for (std::vector<int>& members : result) {
    const int last = members.back();
    const bool two = last_stage && members.size() > 1;
    members.resize(1);
    if (two) members.push_back(last);
  }
  return result;
}

const Mesh::Family& Mesh::FamilyOf(std::string_view axes) const {
  if (const auto found = families_.find(axes); found != families_.end()) return found->second;
  std::vector<std::vector<int>> lists;
  if (axes == "world") {
    lists.emplace_back(world_size_);
    for (int rank = 0; rank < world_size_; ++rank) lists[0][rank] = rank;
  } else if (axes == "embedding" || axes == "position_embedding") {
    lists = EmbeddingMembers(/*last_stage=*/axes == "embedding");
  } else {
    lists = ProductMembers(axes);
  }
  Family family;
  family.group_of_rank.assign(world_size_, -1);
  for (std::vector<int>& members : lists) {
    for (int rank : members) family.group_of_rank[rank] = static_cast<int>(family.groups.size());
    const uint64_t hash = HashOfMembers(members);
    family.groups.push_back({std::string(axes), std::move(members), hash});
  }
  return families_.emplace(std::string(axes), std::move(family)).first->second;
}

const std::vector<Group>& Mesh::Groups(std::string_view axes) const {
  return FamilyOf(axes).groups;
}

bool Mesh::HasGroup(std::string_view axes, int global_rank) const {
  PL_CHECK(global_rank >= 0);
  PL_CHECK(global_rank < world_size_);
  return FamilyOf(axes).group_of_rank[global_rank] >= 0;
}

const Group& Mesh::GroupOf(std::string_view axes, int global_rank) const {
  if (!HasGroup(axes, global_rank)) {
    throw InvalidArgument("rank {} is in no {} group", global_rank, axes);
  }
  const Family& family = FamilyOf(axes);
  return family.groups[family.group_of_rank[global_rank]];
}

std::vector<std::string> Mesh::GroupNames() const {
  std::vector<std::string> names = {"tp",    "cp",    "dp",       "pp",   "dp-cp",
                                    "tp-cp", "tp-dp", "tp-dp-cp", "tp-pp"};
  if (!expert_.empty()) names.insert(names.end(), {"etp", "ep", "edp", "etp-ep", "etp-ep-pp"});
  names.insert(names.end(), {"embedding", "position_embedding", "world"});
  return names;
}

}  // namespace plumbline
