#include "parallel/data/tied_embeddings.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/parallel/tensor/module_world.h"

namespace plumbline {
namespace {

RunConfig ThreeStages() {
  RunConfig config = TensorParallelConfig(2, false);
  config.parallel.pp = 3;
  config.train.global_batch_size = config.train.micro_batch_size * 4;
  return config;
}

// A table of two rows on the first and last stage; another parameter everywhere. The tables of the
// first stage hold 1, of the last 10.
void OnEachStage(const Policies& policies, bool early, double first, double last) {
  OnEachRank(
      ThreeStages(),
      [&](const RankEnv& env) {
        const int stage = env.mesh().CoordinateOf(env.global_rank(), "pp");
        Parameter other = MakeParameter(env, 0, "decoder.layers.0.input_layernorm.weight", {2}, {});
        Parameter table = MakeParameter(env, -1, "embedding.word_embeddings.weight", {4, 1},
                                        {PaddedBlockCut()(0)});
        table.tied_embedding = true;
        std::vector<Parameter*> parameters = {&other};
        if (stage != 1) parameters.push_back(&table);
        TiedEmbeddings tied(env, parameters);
        const double own = stage == 0 ? 1 : 10;
        const auto add = [&] {
          table.AddGradient(env, Pass{},
                            Tensor::FromVector<double>(env.context(), {2, 1}, {own, own}));
        };
        for (int microbatch = 0; microbatch < 4; ++microbatch) {
          add();
          tied.Accumulated(1, microbatch);
        }
        tied.Join();
        tied.Finalize(1);
        if (stage == 1) return;
        const double expected = stage == 0 ? first : last;
        EXPECT_EQ(table.main_grad.ToVector<double>(), (std::vector<double>{expected, expected}))
            << "stage " << stage << " early " << early;
        EXPECT_EQ(other.main_grad.ToVector<double>(), (std::vector<double>{0, 0}));
      },
      policies);
}

TEST(TiedEmbeddings, BothStagesHoldTheSumOfTheirTerms) { OnEachStage({}, false, 44, 44); }

TEST(TiedEmbeddings, ASumBegunEarlyLacksTheOthersLaterTerms) {
  Policies policies;
  policies.tied_embedding.after_microbatch = [](int microbatches) { return microbatches - 2; };
  OnEachStage(policies, true, 33 + 1, 33 + 10);
}

TEST(TiedEmbeddings, AsManySumsAsThePolicySays) {
  Policies policies;
  policies.tied_embedding.reductions = 0;
  OnEachStage(policies, false, 4, 40);
  policies.tied_embedding.reductions = 2;
  OnEachStage(policies, false, 88, 88);
}

TEST(TiedEmbeddings, OneStageNeedsNone) {
  RunConfig config = TensorParallelConfig(1, false);
  OnEachRank(config, [&](const RankEnv& env) {
    Parameter table = MakeParameter(env, -1, "embedding.word_embeddings.weight", {4, 1}, {});
    table.tied_embedding = true;
    std::vector<Parameter*> parameters = {&table};
    table.main_grad = Tensor::FromVector<double>(env.context(), {4, 1}, {1, 2, 3, 4});
    TiedEmbeddings tied(env, parameters);
    tied.Accumulated(1, 0);
    tied.Join();
    tied.Finalize(1);
    EXPECT_EQ(table.main_grad.ToVector<double>(), (std::vector<double>{1, 2, 3, 4}));
  });
}

}  // namespace
}  // namespace plumbline
