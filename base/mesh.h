// Which rank sits where: named axes over the ranks, and every communication group that they make.
//
// Source: Megatron-Core parallel_state.py (RankGenerator): the dense grid (tp, cp, dp, pp) and the
// expert grid (etp, ep, edp, pp) lie over the same ranks; `order` names the axes from the fastest
// to the slowest, and the expert grid follows it with etp for tp, edp for dp and no cp. Axes of
// extent 1 may be left out of `order`.
#ifndef PLUMBLINE_BASE_MESH_H_
#define PLUMBLINE_BASE_MESH_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"

namespace plumbline {

// An ordered list of ranks that communicate. The order is the reduction order and the order of
// gathered shards.
struct Group {
  std::string name;          // axes, as "tp" or "dp-cp"; "embedding", "world"
  std::vector<int> members;  // global ranks
  uint64_t hash = 0;         // of the member list, order included

  int size() const { return static_cast<int>(members.size()); }
  // Position of a global rank in the group, or -1.
  int IndexOf(int global_rank) const;
};

uint64_t HashOfMembers(const std::vector<int>& members);
std::string ToString(
    const Group& group);  // "tp{0,1}"; long lists are shortened: "world{0,1,..,4095}"

// A rank's coordinates by axis name, for both grids: tp, cp, dp, pp, and etp, ep, edp, pp.
using Coordinates = std::map<std::string, int, std::less<>>;

class Mesh {
 public:
  // Throws InvalidArgument when an extent is below 1, the order is no permutation of the axes, the
  // expert grid does not cover the ranks, or the two grids put a rank into different pipeline
  // stages. Without experts (ep 1, etp as tp) there is then no expert grid instead, and asking for
  // its axes throws.
  explicit Mesh(const ParallelConfig& config);

  int world_size() const { return world_size_; }
  // Extent of an axis: "tp", "cp", "dp", "pp", "etp", "ep", "edp".
  int extent(std::string_view axis) const;
  int CoordinateOf(int global_rank, std::string_view axis) const;
  Coordinates CoordinatesOf(int global_rank) const;
  // The rank at dense coordinates; axes that are not named are 0.
  int RankOf(const Coordinates& dense) const;

  // All groups of a product of axes of one grid ("tp", "dp-cp", "tp-cp-dp", "ep-etp" ..., in any
  // spelling), "embedding" (first and last pipeline stage), "position_embedding" (first stage) or
  // "world". Members are ordered as the mesh order says, fastest axis first. Groups come in order
  // of their first member. Throws InvalidArgument for anything else.
  const std::vector<Group>& Groups(std::string_view axes) const;
  // The one that holds a rank; throws InvalidArgument when none does (a middle stage has no
  // embedding group).
  const Group& GroupOf(std::string_view axes, int global_rank) const;
  bool HasGroup(std::string_view axes, int global_rank) const;
  // The names under which Groups() is listed by `plumbline layout`.
  std::vector<std::string> GroupNames() const;

 private:
  struct Axis {
    std::string name;
    int extent;
    int stride;
  };
  struct Family {
    std::vector<Group> groups;
    std::vector<int> group_of_rank;  // -1: in none
  };
  const Axis* Find(const std::vector<Axis>& grid, std::string_view name) const;
  // Throws InvalidArgument when neither grid has it.
  const Axis& AxisOf(std::string_view name) const;
  std::vector<Axis> AxesOf(std::string_view axes) const;
  std::vector<std::vector<int>> ProductMembers(std::string_view axes) const;
  std::vector<std::vector<int>> EmbeddingMembers(bool last_stage) const;
  const Family& FamilyOf(std::string_view axes) const;

  std::string order_;
  int world_size_ = 1;
  std::vector<Axis> dense_;
  std::vector<Axis> expert_;
  mutable std::map<std::string, Family, std::less<>>
      families_;  // filled on first use; ranks of a world share a thread
};

}  // namespace plumbline

#endif  // PLUMBLINE_BASE_MESH_H_
