#include "parallel/tensor/rank_env.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/parallel/tensor/module_world.h"

namespace plumbline {
namespace {

TEST(RankEnv, TakesItsPlaceFromTheMesh) {
  RunConfig config = TensorParallelConfig(2, true);
  config.parallel.dp = 3;
  config.parallel.order = "dp-cp-ep-pp-tp";
  std::vector<int> seen;
  OnEachRank(config, [&](const RankEnv& env) {
    EXPECT_EQ(env.tp_size(), 2);
    EXPECT_EQ(env.tp_rank(), env.global_rank() / 3);
    EXPECT_EQ(env.tp().members[env.tp_rank()], env.global_rank());
    EXPECT_EQ(env.GroupOf("dp-cp").size(), 3);
    seen.push_back(env.global_rank());
  });
  EXPECT_EQ(seen.size(), 6u);
}

TEST(RankEnv, HiddenRowsAreThisRanksPartOfTheSequence) {
  OnEachRank(TensorParallelConfig(4, true), [](const RankEnv& env) {
    EXPECT_TRUE(env.sequence_parallel());
    EXPECT_EQ(env.hidden_rows(), (std::vector<int64_t>{2 * env.tp_rank(), 2 * env.tp_rank() + 1}));
  });
  OnEachRank(TensorParallelConfig(4, false),
             [](const RankEnv& env) { EXPECT_EQ(env.hidden_rows().size(), 8u); });
}

TEST(RankEnv, SequenceParallelismNeedsMoreThanOneRank) {
  OnEachRank(TensorParallelConfig(1, true), [](const RankEnv& env) {
    EXPECT_FALSE(env.sequence_parallel());
    EXPECT_EQ(env.hidden_rows().size(), 8u);
  });
}

TEST(RankEnv, RefusesASequenceThatDoesNotSplit) {
  RunConfig config = TensorParallelConfig(4, true);
  config.model.seq_length = 6;
  EXPECT_THROW(OnEachRank(config, [](const RankEnv&) {}), InvalidArgument);
}

}  // namespace
}  // namespace plumbline
