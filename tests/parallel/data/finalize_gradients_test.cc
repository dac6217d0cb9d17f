#include "parallel/data/finalize_gradients.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "parallel/data/data_parallel.h"
#include "tests/parallel/tensor/module_world.h"

namespace plumbline {
namespace {

// Rows of a tp4 parameter: one of each rank's own, then one that ranks 0, 1 and ranks 2, 3 share.
Parameter WithCopiedRows(const RankEnv& env) {
  Parameter parameter =
      MakeParameter(env, 0, "qkv", {6, 1},
                    {Sharded("tp", {ShardStep::Rows(0, {{0, 4}, {1, 4}, {2, 5}, {3, 5}})})});
  ReplicatedRows copied;
  copied.first_row = 1;
  const int first = env.tp_rank() / 2 * 2;
  copied.group = {"tp-kv", {env.tp().members[first], env.tp().members[first + 1]}, 0};
  copied.group.hash = HashOfMembers(copied.group.members);
  parameter.replicated_rows = copied;
  return parameter;
}

TEST(FinalizeGradients, CopiedRowsAreSummedOverTheirHoldersAlone) {
  std::vector<std::vector<double>> results(4);
  OnEachRank(TensorParallelConfig(4, false), [&](const RankEnv& env) {
    Parameter parameter = WithCopiedRows(env);
    const double own = env.tp_rank() + 1;
    parameter.AddGradient(env, Pass{},
                          Tensor::FromVector<double>(Context{}, {2, 1}, {own, 10 * own}));
    Parameter* const parameters[] = {&parameter};
    TiedEmbeddings tied_embeddings(env, parameters);
    FinalizeGradients(env, 1, parameters, [] {}, tied_embeddings, {});
    results[env.tp_rank()] = parameter.main_grad.ToVector<double>();
  });
  EXPECT_EQ(results[0], (std::vector<double>{1, 30}));
  EXPECT_EQ(results[1], (std::vector<double>{2, 30}));
  EXPECT_EQ(results[2], (std::vector<double>{3, 70}));
  EXPECT_EQ(results[3], (std::vector<double>{4, 70}));
}

TEST(FinalizeGradients, PerTokenLossDividesByTheStepsLabels) {
  RunConfig config = TensorParallelConfig(2, true);
  config.parallel.dp = 2;
  config.train.calculate_per_token_loss = true;
  config.train.global_batch_size = 4;
  OnEachRank(config, [&](const RankEnv& env) {
    Parameter parameter = MakeParameter(env, 0, "norm", {1}, {});
    parameter.sequence_parallel = true;
    const double own = env.global_rank() + 1;
    parameter.AddGradient(env, Pass{}, Tensor::FromVector<double>(Context{}, {1}, {own}));
    Parameter* const parameters[] = {&parameter};
    TiedEmbeddings tied_embeddings(env, parameters);
    const auto reduce = [&] { ReduceOverDataParallel(env, 1, parameters); };
    FinalizeGradients(env, 1, parameters, reduce, tied_embeddings,
                      Tensor::FromVector<double>(Context{}, {}, {4}));
    // 1 + 2 + 3 + 4 over both groups, divided by 4.
    EXPECT_EQ(parameter.main_grad.at<double>({0}), 2.5);
  });
}

// Notes over which group each collective goes.
class OrderOfGroups : public CommunicatorDecorator {
 public:
  using CommunicatorDecorator::CommunicatorDecorator;
  std::shared_ptr<Work> Issue(const CollectiveCall& call) override {
    groups.push_back(call.group.name);
    return CommunicatorDecorator::Issue(call);
  }
  std::vector<std::string> groups;
};

TEST(FinalizeGradients, ReducesInMegatronsOrder) {
  RunConfig config = TensorParallelConfig(2, true);
  config.parallel.dp = 2;
  config.parallel.pp = 2;
  config.model.num_layers = 2;
  config.train.global_batch_size = 4;
  OnEachRank(config, [&](const RankEnv& whole) {
    OrderOfGroups comm(whole.comm());
    const RankEnv env(whole.context(), comm, whole.mesh(), config, whole.policies(),
                      whole.parameters(), whole.probe());
    Parameter copied = MakeParameter(env, 0, "kv", {4, 1}, {BlockCut()(0)});
    copied.replicated_rows = ReplicatedRows{env.tp(), 1};
    copied.replicated_rows->group.name = "copies";
    Parameter table = MakeParameter(env, -1, "table", {4, 1}, {BlockCut()(0)});
    table.tied_embedding = true;
    Parameter norm = MakeParameter(env, 0, "norm", {1}, {});
    norm.sequence_parallel = true;
    Parameter* const parameters[] = {&copied, &table, &norm};
    TiedEmbeddings tied_embeddings(env, parameters);
    const auto reduce = [&] { ReduceOverDataParallel(env, 1, parameters); };
    FinalizeGradients(env, 1, parameters, reduce, tied_embeddings, {});
    EXPECT_EQ(comm.groups,
              (std::vector<std::string>{"dp-cp", "dp-cp", "dp-cp", "tp", "embedding", "copies"}));
  });
}

}  // namespace
}  // namespace plumbline
