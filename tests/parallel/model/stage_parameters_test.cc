#include "parallel/model/stage_parameters.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "parallel/model/gpt_model.h"
#include "parallel/pipeline/stage_layout.h"
#include "tests/parallel/tensor/module_world.h"

namespace plumbline {
namespace {

// What the list says of a parameter that a chunk really made.
StageParameter Described(const Parameter& parameter, const StageSpec& stage, int unit) {
  const bool shared = parameter.tied_embedding && stage.pre_process != stage.post_process;
  return {parameter.name(), parameter.layer, unit, parameter.value.elements(), shared};
}

// On one stage's ranks: a world of tp ranks is enough, because a chunk doesn't depend on the stage
// that holds it.
void ExpectSameAsModel(const RunConfig& config) {
  const StageLayout layout(config);
  for (int stage = 0; stage < layout.stages(); ++stage) {
    for (int chunk = 0; chunk < layout.chunks(); ++chunk) {
      const StageSpec& spec = layout.At(stage, chunk);
      const std::vector<StageParameter> listed = StageParameters(config, spec);
      RunConfig alone = config;
      alone.parallel.pp = 1;
      alone.parallel.virtual_stages = 1;
      OnEachRank(alone, [&](const RankEnv& env) {
        const GptModel model(env, spec);
        std::vector<StageParameter> made;
        for (const Parameter* parameter : model.parameters()) {
          const size_t i = made.size();
          made.push_back(Described(*parameter, spec, i < listed.size() ? listed[i].unit : -1));
        }
        EXPECT_EQ(made, listed) << "stage " << stage << " chunk " << chunk;
      });
    }
  }
}

RunConfig Config(int tp, int pp) {
  RunConfig config = TensorParallelConfig(tp, false);
  config.parallel.pp = pp;
  config.model.num_layers = 4;
  return config;
}

struct ModelCase {
  const char* name;
  void (*change)(RunConfig&);
};

class StageParametersTest : public testing::TestWithParam<ModelCase> {};

TEST_P(StageParametersTest, AreThoseThatTheModelMakes) {
  for (int tp : {1, 2, 4}) {
    for (int pp : {1, 2}) {
      RunConfig config = Config(tp, pp);
      GetParam().change(config);
      if (config.model.vocab_padding == VocabPadding::kMegatron) {
        config.model.padded_vocab_size = PaddedVocabSize(config.model.vocab_size, tp);
      }
      ExpectSameAsModel(config);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, StageParametersTest,
    testing::Values(
        ModelCase{"Default", [](RunConfig&) {}},
        ModelCase{"Untied", [](RunConfig& c) { c.model.tied_embeddings = false; }},
        ModelCase{"Swiglu", [](RunConfig& c) { c.model.activation = Activation::kSwiglu; }},
        ModelCase{"Rope",
                  [](RunConfig& c) { c.model.position_embedding = PositionEmbedding::kRope; }},
        ModelCase{"RmsNorm", [](RunConfig& c) { c.model.normalization = Normalization::kRmsNorm; }},
        ModelCase{"NoBias", [](RunConfig& c) { c.model.add_bias_linear = false; }},
        ModelCase{"QkvBias",
                  [](RunConfig& c) {
                    c.model.add_bias_linear = false;
                    c.model.add_qkv_bias = true;
                  }},
        ModelCase{"OneGroupGathered", [](RunConfig& c) { c.model.num_query_groups = 1; }},
        ModelCase{"OneGroupReplicated",
                  [](RunConfig& c) {
                    c.model.num_query_groups = 1;
                    c.parallel.gqa_policy = GqaPolicy::kReplicateKv;
                  }},
        ModelCase{"PaddedVocabulary",
                  [](RunConfig& c) { c.model.vocab_padding = VocabPadding::kMegatron; }},
        ModelCase{"Interleaved",
                  [](RunConfig& c) {
                    if (c.parallel.pp > 1) c.parallel.virtual_stages = 2;
                  }}),
    [](const testing::TestParamInfo<ModelCase>& info) { return std::string(info.param.name); });

TEST(StageParametersTest, UnitsFollowTheModel) {
  std::vector<int> units;
  for (const StageParameter& parameter :
       StageParameters(Config(1, 1), WholeModel(Config(1, 1).model))) {
    if (units.empty() || units.back() != parameter.unit) units.push_back(parameter.unit);
  }
  EXPECT_EQ(units, (std::vector<int>{0, 1, 2, 3, 4, 5}));
}

}  // namespace
}  // namespace plumbline
