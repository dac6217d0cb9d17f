#include "cli/parameter_layouts.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "base/batch.h"
#include "parallel/train/stage_model.h"
#include "tests/parallel/tensor/module_world.h"

namespace plumbline {
namespace {

struct Split {
  std::string name;
  std::function<void(RunConfig&)> change;
};
void PrintTo(const Split& split, std::ostream* out) { *out << split.name; }

std::vector<Split> Splits() {
  return {
      {"one_stage", [](RunConfig&) {}},
      {"even", [](RunConfig& c) { c.parallel.pp = 4; }},
      {"untied",
       [](RunConfig& c) {
         c.parallel.pp = 2;
         c.model.tied_embeddings = false;
       }},
      {"uneven",
       [](RunConfig& c) {
         c.parallel.pp = 3;
         c.parallel.decoder_first_pipeline_num_layers = 1;
         c.parallel.decoder_last_pipeline_num_layers = 3;
       }},
      {"chunks",
       [](RunConfig& c) {
         c.parallel.pp = 2;
         c.parallel.virtual_stages = 2;
       }},
      {"explicit_chunks",
       [](RunConfig& c) {
         c.parallel.pp = 2;
         c.parallel.pipeline_layout = "Et*3|t|t*4|L";
       }},
  };
}

class ParameterLayoutsTest : public ::testing::TestWithParam<Split> {
 protected:
  static RunConfig Config(const Split& split) {
    RunConfig config = TensorParallelConfig(2, false);
    config.model.num_layers = 8;
    config.model.tied_embeddings = true;
    config.train.global_batch_size = config.train.micro_batch_size * 4;
    split.change(config);
    return config;
  }
};

// Each rank's own model says what it holds, chunk by chunk.
TEST_P(ParameterLayoutsTest, ARankHoldsWhatItsStageBuilds) {
  const RunConfig config = Config(GetParam());
  const Mesh mesh(config.parallel);
  std::map<std::string, std::set<int>> ranks_of;
  std::map<std::string, std::set<PipelinePlace>> places_of;
  const TextBatches batches(config.model, config.train, {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5});
  const StageLayout stages(config);
  OnEachRank(config, [&](const RankEnv& env) {
    const int stage = env.mesh().CoordinateOf(env.global_rank(), "pp");
    const StageModel model(env, batches, stages, GptForwardStep(env));
    for (int chunk = 0; chunk < stages.chunks(); ++chunk) {
      for (const Parameter* parameter : model.ParametersOf(chunk)) {
        // The last stage's copy of a tied table has the table's name.
        const std::string& name = parameter->layout.tensor.name;
        ranks_of[name].insert(env.global_rank());
        places_of[name].insert({stage, stages.chunks() > 1 ? chunk : -1});
      }
    }
  });
  const std::vector<ParameterLayout> layouts = ParameterLayouts(config, mesh, {"all"});
  EXPECT_EQ(layouts.size(), ranks_of.size());
  for (const ParameterLayout& layout : layouts) {
    std::set<int> ranks;
    for (const ParameterPiece& piece : layout.pieces) {
      ranks.insert(piece.ranks.begin(), piece.ranks.end());
    }
    const std::string& name = layout.tensor.name;
    EXPECT_EQ(ranks, ranks_of[name]) << name;
    EXPECT_EQ(std::set<PipelinePlace>(layout.places.begin(), layout.places.end()), places_of[name])
        << name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, ParameterLayoutsTest, ::testing::ValuesIn(Splits()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace plumbline
