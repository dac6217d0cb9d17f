#include "parallel/train/data_iterator.h"

#include <gtest/gtest.h>

#include "base/batch.h"
#include "parallel/pipeline/stage_layout.h"
#include "tests/parallel/tensor/module_world.h"

namespace plumbline {
namespace {

RunConfig TwoByTwo() {
  RunConfig config = TensorParallelConfig(1, false);
  config.model.num_layers = 4;
  config.parallel.dp = 2;
  config.parallel.pp = 2;
  config.train.global_batch_size = config.train.micro_batch_size * 2 * 3;
  return config;
}

TEST(DataIterator, HandsOutTheRanksMicrobatchesStepAfterStep) {
  const RunConfig config = TwoByTwo();
  const TextBatches batches(config.model, config.train, {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5});
  OnEachRank(config, [&](const RankEnv& env) {
    DataIterator data(env, batches, WholeModel(config.model));
    const int64_t dp_rank = env.mesh().CoordinateOf(env.global_rank(), "dp");
    for (int64_t i = 0; i < 7; ++i) {  // more than two steps of three
      EXPECT_EQ(data.taken(), i);
      const int64_t first = (i / 3 * 6 + i % 3 * 2 + dp_rank) * config.train.micro_batch_size;
      EXPECT_EQ(data.Next().batch.samples[0], first);
    }
  });
}

TEST(DataIterator, TokensAndLabelsAreReadWhereTheyAreNeeded) {
  const RunConfig config = TwoByTwo();
  const TextBatches batches(config.model, config.train, {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5});
  const StageLayout layout(config);
  OnEachRank(config, [&](const RankEnv& env) {
    const int stage = env.mesh().CoordinateOf(env.global_rank(), "pp");
    DataIterator data(env, batches, layout.At(stage, 0));
    const Microbatch microbatch = data.Next();
    EXPECT_EQ(microbatch.batch.tokens.defined(), stage == 0);
    EXPECT_EQ(microbatch.batch.labels.defined(), stage == 1);
    EXPECT_EQ(microbatch.targets.defined(), stage == 1);
    EXPECT_EQ(microbatch.loss_mask.defined(), stage == 1);
    // Rotary positions, packed documents and dropout are every stage's.
    EXPECT_TRUE(microbatch.batch.position_ids.defined());
    EXPECT_TRUE(microbatch.batch.document_ids.defined());
    EXPECT_FALSE(microbatch.batch.samples.empty());
  });
}

}  // namespace
}  // namespace plumbline
