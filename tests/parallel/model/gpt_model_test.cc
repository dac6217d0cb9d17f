#include "parallel/model/gpt_model.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/parallel/model/directional_derivative.h"
#include "tests/parallel/tensor/module_world.h"
#include "tests/parallel/train/model_shapes.h"

namespace plumbline {
namespace {

class GptModelTest : public testing::TestWithParam<int> {
 protected:
  RunConfig config() const {
    RunConfig config = ModelShapes()[GetParam()].config;
    config.train.global_batch_size = 2;
    return config;
  }
};

TEST_P(GptModelTest, BackwardIsTheDerivativeOfEachParameter) {
  const RunConfig config = this->config();
  const Microbatch microbatch = TestMicrobatch(config, config.train.packed_documents);
  OnEachRank(config, [&](const RankEnv& env) {
    GptModel model(env, WholeModel(env.model()));
    const Tensor dlosses = Numbers({config.model.seq_length, 2}, 2);
    GptModel::Saved saved;
    const auto value = [&] {
      return InnerProduct(dlosses, model.Forward({.data = &microbatch}, {}, saved));
    };
    value();
    model.Backward({.phase = Phase::kBackward, .data = &microbatch}, dlosses, saved);
    const double bound = config.model.activation == Activation::kSquaredRelu ? 1e-4 : 1e-6;
    for (Parameter* parameter : model.parameters()) {
      EXPECT_LE(DerivativeError(parameter->value, parameter->main_grad, value, 4), bound)
          << parameter->name();
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Shapes, GptModelTest, testing::Range(0, 5),
                         [](const auto& info) { return ModelShapes()[info.param].name; });

std::vector<std::string> ParameterNames(const RunConfig& config, const StageSpec& stage) {
  std::vector<std::string> names;
  OnEachRank(config, [&](const RankEnv& env) {
    const GptModel model(env, stage);
    for (const Parameter* parameter : model.parameters()) names.push_back(parameter->name());
  });
  return names;
}

TEST(GptModel, ATiedWeightComesOnceAndAnUntiedOneLast) {
  RunConfig config = ModelShapes()[0].config;
  std::vector<std::string> names = ParameterNames(config, WholeModel(config.model));
  EXPECT_EQ(names.front(), "embedding.word_embeddings.weight");
  EXPECT_EQ(names[1], "embedding.position_embeddings.weight");
  EXPECT_EQ(names.back(), "decoder.final_layernorm.bias");
  config.model.tied_embeddings = false;
  names = ParameterNames(config, WholeModel(config.model));
  EXPECT_EQ(names.back(), "output_layer.weight");
}

TEST(GptModel, AStageHoldsItsLayersByGlobalNumber) {
  const RunConfig config = ModelShapes()[1].config;
  const StageSpec stage = {.layers = {5, 6}, .pre_process = false, .post_process = false};
  const std::vector<std::string> names = ParameterNames(config, stage);
  EXPECT_EQ(names.front(), "decoder.layers.5.input_layernorm.weight");
  EXPECT_EQ(names.back(), "decoder.layers.6.mlp.linear_fc2.weight");
}

TEST(GptModel, StagesInARowAreTheWholeModel) {
  const RunConfig config = ModelShapes()[1].config;
  const Microbatch microbatch = TestMicrobatch(config, true);
  OnEachRank(config, [&](const RankEnv& env) {
    const Pass forward{.data = &microbatch};
    const Pass backward{.phase = Phase::kBackward, .data = &microbatch};
    const Tensor dlosses = Numbers({config.model.seq_length, 2}, 2);
    GptModel whole(env, WholeModel(env.model()));
    GptModel first(env, {.layers = {0}, .post_process = false});
    GptModel last(env, {.layers = {1}, .pre_process = false});
    GptModel::Saved saved;
    GptModel::Saved first_saved;
    GptModel::Saved last_saved;
    const Tensor losses = whole.Forward(forward, {}, saved);
    const Tensor hidden = first.Forward(forward, {}, first_saved);
    EXPECT_EQ(last.Forward(forward, hidden, last_saved).ToVector<double>(),
              losses.ToVector<double>());
    whole.Backward(backward, dlosses, saved);
    first.Backward(backward, last.Backward(backward, dlosses, last_saved), first_saved);
    std::vector<Parameter*> parts = first.parameters();
    parts.insert(parts.end(), last.parameters().begin(), last.parameters().end());
    PL_CHECK(parts.size() == whole.parameters().size());
    for (size_t i = 0; i < parts.size(); ++i) {
      EXPECT_EQ(parts[i]->name(), whole.parameters()[i]->name());
      EXPECT_EQ(parts[i]->main_grad.ToVector<double>(),
                whole.parameters()[i]->main_grad.ToVector<double>());
    }
  });
}

}  // namespace
}  // namespace plumbline
