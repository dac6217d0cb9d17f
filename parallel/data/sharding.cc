#include "parallel/data/sharding.h"

#include <numeric>
#include <utility>

#include "base/error.h"
#include "parallel/tensor/tap.h"

namespace plumbline {
namespace {

Group GroupFrom(std::string name, std::vector<int> members) {
  Group group;
  group.name = std::move(name);
  group.hash = HashOfMembers(members);
  group.members = std::move(members);
  return group;
}

int Instances(const RankEnv& env) {
  return env.config().parallel.data.num_distributed_optimizer_instances;
}

// Whether the parts follow each other and cover all elements, so that their ends say everything.
bool Consecutive(const std::vector<BufferRange>& parts, int64_t elements) {
  int64_t at = 0;
  for (const BufferRange& part : parts) {
    if (part.begin != at && part.size() > 0) return false;
    at = part.size() > 0 ? part.end : at;
  }
  return at == elements;
}

ShardStep RangesOf(const std::vector<BufferRange>& parts) {
  std::vector<int64_t> offsets = {0};
  for (const BufferRange& part : parts) {
    offsets.push_back(part.size() > 0 ? part.end : offsets.back());
  }
  return ShardStep::Range(std::move(offsets));
}

// By position in the whole group: each instance has all parts.
ShardStep RowsOf(const std::vector<BufferRange>& parts, int instances) {
  std::vector<std::vector<int64_t>> rows;
  for (int i = 0; i < instances; ++i) {
    for (const BufferRange& part : parts) {
      std::vector<int64_t>& elements = rows.emplace_back(static_cast<size_t>(part.size()));
      std::iota(elements.begin(), elements.end(), part.begin);
    }
  }
  return ShardStep::Rows(0, std::move(rows));
}

}  // namespace

ShardGroups MakeShardGroups(const RankEnv& env) {
  ShardGroups groups;
  groups.axes = env.policies().data_parallel.group_axes;
  groups.all = env.GroupOf(groups.axes);
  const int size = groups.all.size() / Instances(env);
  const int position = groups.all.IndexOf(env.global_rank());
  groups.shard = position % size;
  if (Instances(env) == 1) {
    groups.instance = groups.all;
    groups.replicas = GroupFrom("inter_" + groups.axes, {env.global_rank()});
    return groups;
  }
  std::vector<int> instance;
  std::vector<int> replicas;
  for (int i = 0; i < groups.all.size(); ++i) {
    const int rank = groups.all.members[static_cast<size_t>(i)];
    if (i / size == position / size) instance.push_back(rank);
    if (i % size == groups.shard) replicas.push_back(rank);
  }
  groups.instance = GroupFrom("intra_" + groups.axes, std::move(instance));
  groups.replicas = GroupFrom("inter_" + groups.axes, std::move(replicas));
  return groups;
}

Group MakeModelGroup(const RankEnv& env, const std::string& axes) {
  const Group& all = env.GroupOf(axes);
  const int instances = Instances(env);
  if (instances == 1) return all;
  const std::string& data_axes = env.policies().data_parallel.group_axes;
  const auto instance_of = [&](int rank) {
    const Group& data = env.mesh().GroupOf(data_axes, rank);
    return data.IndexOf(rank) / (data.size() / instances);
  };
  std::vector<int> members;
  for (const int rank : all.members) {
    if (instance_of(rank) == instance_of(env.global_rank())) members.push_back(rank);
  }
  return GroupFrom("intra_" + axes, std::move(members));
}

OwnedPart MakeOwnedPart(const RankEnv& env, const ShardGroups& groups, const Parameter& parameter,
                        const std::vector<BufferRange>& parts) {
  PL_CHECK(static_cast<int>(parts.size()) == groups.instance.size());
  const int instances = Instances(env);
  const int64_t elements = ElementsOf(parameter.layout.piece.local_shape);
  LogicalTensor tensor = parameter.layout.tensor;
  tensor.placements.push_back(
      Sharded(groups.axes, {ShardStep::Flatten(), instances == 1 && Consecutive(parts, elements)
                                                      ? RangesOf(parts)
                                                      : RowsOf(parts, instances)}));
  const BufferRange& own = parts[static_cast<size_t>(groups.shard)];
  return {own.begin, own.end, MakeLayout(env, std::move(tensor)), {}, {}};
}

BufferRange WithinParameter(const BufferRange& parameter, const BufferRange& of_buffer) {
  const BufferRange both = Intersection(parameter, of_buffer);
  if (both.size() == 0) return {};
  return {both.begin - parameter.begin, both.end - parameter.begin};
}

}  // namespace plumbline
