#include "parallel/data/sharding.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "tests/parallel/tensor/module_world.h"

namespace plumbline {
namespace {

RunConfig DataParallel(int tp, int dp, int instances) {
  RunConfig config = TensorParallelConfig(tp, false);
  config.parallel.dp = dp;
  config.train.global_batch_size = 2 * dp;
  config.parallel.data.gradient_buffers = true;
  config.parallel.data.sharding_strategy = ShardingStrategy::kOptim;
  config.parallel.data.num_distributed_optimizer_instances = instances;
  return config;
}

TEST(ShardGroups, OneInstanceIsTheWholeGroup) {
  OnEachRank(DataParallel(2, 3, 1), [](const RankEnv& env) {
    const ShardGroups groups = MakeShardGroups(env);
    EXPECT_EQ(groups.instance.members, env.GroupOf("dp-cp").members);
    EXPECT_EQ(groups.replicas.members, (std::vector<int>{env.global_rank()}));
    EXPECT_EQ(groups.shard, env.global_rank() / 2);
    EXPECT_EQ(MakeModelGroup(env, "tp-cp-dp-pp").size(), 6);
  });
}

// tp 2 x dp 4, ranks of one tp coordinate 0 2 4 6: instances {0, 2} and {4, 6}.
TEST(ShardGroups, ConsecutiveRanksFormAnInstance) {
  OnEachRank(DataParallel(2, 4, 2), [](const RankEnv& env) {
    const ShardGroups groups = MakeShardGroups(env);
    const int tp = env.global_rank() % 2;
    const int dp = env.global_rank() / 2;
    const int first = dp / 2 * 4 + tp;
    EXPECT_EQ(groups.instance.members, (std::vector<int>{first, first + 2}));
    EXPECT_EQ(groups.replicas.members, (std::vector<int>{dp % 2 * 2 + tp, dp % 2 * 2 + tp + 4}));
    EXPECT_EQ(groups.shard, dp % 2);
    EXPECT_EQ(groups.instance.hash, HashOfMembers(groups.instance.members));
    // Both tp ranks of the instance's two.
    const int begin = dp / 2 * 4;
    EXPECT_EQ(MakeModelGroup(env, "tp-cp-dp-pp").members,
              (std::vector<int>{begin, begin + 1, begin + 2, begin + 3}));
  });
}

TEST(OwnedPart, NamesTheElementsOfTheRanksRange) {
  for (const int instances : {1, 2}) {
    OnEachRank(DataParallel(1, 2 * instances, instances), [&](const RankEnv& env) {
      const Parameter parameter = MakeParameter(env, 0, "w", {3, 2}, {});
      const ShardGroups groups = MakeShardGroups(env);
      const OwnedPart part = MakeOwnedPart(env, groups, parameter, {{0, 4}, {4, 6}});
      const bool first = env.global_rank() % 2 == 0;
      EXPECT_EQ(part.layout.piece.global_index,
                first ? (std::vector<int64_t>{0, 1, 2, 3}) : (std::vector<int64_t>{4, 5}));
      EXPECT_EQ(part.begin, first ? 0 : 4);
      EXPECT_EQ(part.end, first ? 4 : 6);
    });
  }
}

// On top of a cut over tp: rank tp 1 has rows 2 and 3 of four, of them dp 1 elements from 3 on.
TEST(OwnedPart, CutsTheTensorParallelPiece) {
  OnEachRank(DataParallel(2, 2, 1), [](const RankEnv& env) {
    const Parameter parameter = MakeParameter(env, 0, "w", {4, 2}, {BlockCut()(0)});
    const OwnedPart part = MakeOwnedPart(env, MakeShardGroups(env), parameter, {{0, 3}, {3, 4}});
    const int64_t base = env.tp_rank() * 4;
    const bool first = env.global_rank() < 2;
    EXPECT_EQ(part.layout.piece.global_index, first
                                                  ? (std::vector<int64_t>{base, base + 1, base + 2})
                                                  : (std::vector<int64_t>{base + 3}));
  });
}

TEST(OwnedPart, MayBeEmpty) {
  OnEachRank(DataParallel(1, 2, 1), [](const RankEnv& env) {
    const Parameter parameter = MakeParameter(env, 0, "w", {3}, {});
    const OwnedPart part = MakeOwnedPart(env, MakeShardGroups(env), parameter, {{}, {0, 3}});
    EXPECT_EQ(part.layout.piece.global_index.size(), env.global_rank() == 0 ? 0u : 3u);
  });
}

TEST(WithinParameter, CountsFromTheParametersBegin) {
  EXPECT_EQ(WithinParameter({10, 20}, {0, 13}), (BufferRange{0, 3}));
  EXPECT_EQ(WithinParameter({10, 20}, {13, 40}), (BufferRange{3, 10}));
  EXPECT_EQ(WithinParameter({10, 20}, {20, 40}), (BufferRange{0, 0}));
}

}  // namespace
}  // namespace plumbline
