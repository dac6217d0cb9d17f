// Which data-parallel ranks share out the states of parameters, and what each of them owns.
//
// With several distributed-optimizer instances consecutive ranks of the group form an instance,
// which shares everything out among its own; ranks at the same place of all instances own the same.
//
// Source:   Megatron-Core parallel_state.py, intra and inter partial data-parallel groups.
#ifndef PLUMBLINE_PARALLEL_DATA_SHARDING_H_
#define PLUMBLINE_PARALLEL_DATA_SHARDING_H_

#include <vector>

#include "base/mesh.h"
#include "parallel/data/buffer_layout.h"
#include "parallel/tensor/parameter.h"

namespace plumbline {

struct ShardGroups {
  Group all;         // gradients are summed over these
  Group instance;    // a bucket is cut over these
  Group replicas;    // the same shard, in all instances
  int shard = 0;     // this rank's position in `instance`
  std::string axes;  // of `all`
};
ShardGroups MakeShardGroups(const RankEnv& env);

// Everyone whose shards, in one optimizer instance, make up the whole model; of an axis product.
Group MakeModelGroup(const RankEnv& env, const std::string& axes);

// This rank's part of a parameter. `parts`: by shard, elements of the parameter's flattened piece.
// Value and gradient are left to the caller.
OwnedPart MakeOwnedPart(const RankEnv& env, const ShardGroups& groups, const Parameter& parameter,
                        const std::vector<BufferRange>& parts);

// The range of a parameter that meets `of_buffer`, in elements of the parameter.
BufferRange WithinParameter(const BufferRange& parameter, const BufferRange& of_buffer);

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_DATA_SHARDING_H_
