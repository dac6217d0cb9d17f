#include "parallel/pipeline/stage_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"

namespace plumbline {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

RunConfig Config(int64_t layers, int pp, int chunks = 1) {
  RunConfig config;
  config.model.num_layers = layers;
  config.train.global_batch_size = 16;
  config.parallel.pp = pp;
  config.parallel.virtual_stages = chunks;
  return config;
}
RunConfig WithLayout(int64_t layers, int pp, const std::string& layout) {
  RunConfig config = Config(layers, pp);
  config.parallel.pipeline_layout = layout;
  return config;
}

std::string Refusal(const RunConfig& config) {
  try {
    ScheduleConfigOf(config);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

// Each layer once and in order, the embedding first, the loss last, and what goes out comes in.
void ExpectLawful(const RunConfig& config) {
  const StageLayout layout(config);
  int32_t next = 0;
  for (int chunk = 0; chunk < layout.chunks(); ++chunk) {
    for (int stage = 0; stage < layout.stages(); ++stage) {
      const StageSpec& spec = layout.At(stage, chunk);
      EXPECT_EQ(spec.pre_process, chunk == 0 && stage == 0);
      EXPECT_EQ(spec.post_process, chunk + 1 == layout.chunks() && stage + 1 == layout.stages());
      const std::string input = spec.pre_process ? ""
                                : next == 0
                                    ? "embedding"
                                    : "decoder.layers." + std::to_string(next - 1) + ".mlp_bda";
      EXPECT_EQ(spec.input_tensor, input);
      for (const int32_t layer : spec.layers) EXPECT_EQ(layer, next++);
    }
  }
  EXPECT_EQ(next, config.model.num_layers);
}

TEST(StageLayout, EachLayerComesOnceAndInOrder) {
  int legal = 0;
  for (int64_t layers = 1; layers <= 24; ++layers) {
    for (int pp : {1, 2, 3, 4, 8}) {
      for (int chunks : {1, 2, 3}) {
        for (int64_t first : {0, 1, 2, 3}) {
          for (int64_t last : {0, 1, 2}) {
            RunConfig config = Config(layers, pp, chunks);
            config.parallel.decoder_first_pipeline_num_layers = first;
            config.parallel.decoder_last_pipeline_num_layers = last;
            try {
              StageLayout{config};
            } catch (const InvalidArgument&) {
              continue;
            }
            ++legal;
            ExpectLawful(config);
          }
        }
      }
    }
  }
  EXPECT_GT(legal, 100);
}

TEST(StageLayout, ALayoutSaysEachChunk) {
  for (const char* text : {"Et*3|t*4|t*4|tL", "E t,t t|(t)*4|(tt)*2|tL", "Ettt|tttt|(t*2)*2|tL"}) {
    const RunConfig config = WithLayout(12, 2, text);
    ExpectLawful(config);
    const StageLayout layout(config);
    ASSERT_EQ(layout.chunks(), 2) << text;
    EXPECT_THAT(layout.At(0, 0).layers, ElementsAre(0, 1, 2));
    EXPECT_THAT(layout.At(1, 0).layers, ElementsAre(3, 4, 5, 6));
    EXPECT_THAT(layout.At(0, 1).layers, ElementsAre(7, 8, 9, 10));
    EXPECT_THAT(layout.At(1, 1).layers, ElementsAre(11));
  }
  const StageLayout alone(WithLayout(8, 4, "E|(tttt|)*2L"));
  EXPECT_TRUE(alone.At(0, 0).layers.empty());
  EXPECT_TRUE(alone.At(3, 0).layers.empty());
}

TEST(StageLayout, AnInputIsShownOncePerStage) {
  const StageLayout layout(WithLayout(5, 2, "Et*2||t*3|L"));
  EXPECT_TRUE(layout.At(1, 0).shows_input);
  EXPECT_FALSE(layout.At(0, 1).shows_input);  // it made it
  EXPECT_TRUE(layout.At(1, 1).shows_input);
}

TEST(StageLayout, ATensorIsOnTheStagesThatMakeOrReceiveIt) {
  RunConfig config = Config(8, 4);
  const StageLayout tied(config);
  EXPECT_THAT(tied.StagesOf("decoder.layers.3.mlp.linear_fc1"), ElementsAre(1));
  EXPECT_THAT(tied.StagesOf("decoder.layers.3.mlp_bda"), ElementsAre(1, 2));
  EXPECT_THAT(tied.StagesOf("decoder.layers.2.mlp_bda"), ElementsAre(1));
  EXPECT_THAT(tied.StagesOf("embedding"), ElementsAre(0));
  EXPECT_THAT(tied.StagesOf("embedding.word_embeddings.weight"), ElementsAre(0, 3));
  EXPECT_THAT(tied.StagesOf("lm_loss"), ElementsAre(3));
  EXPECT_THAT(tied.StagesOf("grad_norm"), ElementsAre(0, 1, 2, 3));
  EXPECT_TRUE(tied.StagesOf("decoder.layers.8.mlp_bda").empty());
  config.model.tied_embeddings = false;
  EXPECT_THAT(StageLayout(config).StagesOf("embedding.word_embeddings.weight"), ElementsAre(0));
  EXPECT_THAT(StageLayout(config).StagesOf("output_layer.weight"), ElementsAre(3));
}

TEST(StageLayout, PlacesAreTheChunksThatMakeOrReceiveATensor) {
  const StageLayout layout(Config(4, 2, 2));  // layers 0 to 3 on (0, 0), (1, 0), (0, 1), (1, 1)
  using Place = PipelinePlace;
  EXPECT_THAT(layout.PlacesOf("decoder.layers.2.mlp.linear_fc1"), ElementsAre(Place{0, 1}));
  EXPECT_THAT(layout.PlacesOf("decoder.layers.1.mlp_bda"), ElementsAre(Place{0, 1}, Place{1, 0}));
  EXPECT_THAT(layout.PlacesOf("embedding.word_embeddings.weight"),
              ElementsAre(Place{0, 0}, Place{1, 1}));
  EXPECT_THAT(layout.PlacesOf("grad_norm"), ElementsAre(Place{0, -1}, Place{1, -1}));
}

TEST(StageLayout, IllegalCombinationsAreRefusedWithTheRule) {
  EXPECT_THAT(Refusal(Config(5, 2)), HasSubstr("--num-layers 5 must be a multiple of"));
  EXPECT_THAT(Refusal(Config(4, 1, 2)), HasSubstr("--pipeline-model-parallel-size of at least 2"));
  EXPECT_THAT(Refusal(Config(6, 2, 2)), HasSubstr("--num-virtual-stages-per-pipeline-rank"));
  RunConfig few = Config(8, 4, 2);
  few.train.global_batch_size = 4;  // two microbatches
  EXPECT_THAT(Refusal(few), HasSubstr("at least as many microbatches"));
  RunConfig first = Config(4, 1);
  first.parallel.decoder_first_pipeline_num_layers = 1;
  EXPECT_THAT(Refusal(first), HasSubstr("--decoder-first-pipeline-num-layers"));
  RunConfig unknown = Config(4, 2);
  unknown.parallel.schedule = "2f2b";
  EXPECT_THAT(Refusal(unknown), HasSubstr("--schedule must be one of"));
  for (const char* text :
       {"t*4L", "Et*4", "Et*3L", "Et*2|t*2|L", "Ett|E|ttL", "Et*|t*4L", "Et(t|t*2L", "Et)t|t*2L",
        "Et*4m|L", "Ex*4|L", "Et*0|t*4L", "", "Et*99999999|L"}) {
    RunConfig config = WithLayout(4, 2, text);
    if (*text == '\0') continue;  // no layout: an even split
    EXPECT_THAT(Refusal(config), HasSubstr("--pipeline-model-parallel-layout")) << text;
  }
  RunConfig both = WithLayout(4, 2, "Et*2|t*2L");
  EXPECT_EQ(Refusal(both), "");
  both.parallel.virtual_stages = 2;
  EXPECT_THAT(Refusal(both), HasSubstr("it says all"));
}

TEST(StageLayout, TheScheduleIsWhatMegatronWouldChoose) {
  EXPECT_EQ(ScheduleConfigOf(Config(4, 2)).kind, ScheduleKind::kOneForwardOneBackward);
  EXPECT_EQ(ScheduleConfigOf(Config(4, 2, 2)).kind, ScheduleKind::kInterleaved);
  EXPECT_EQ(ScheduleConfigOf(Config(4, 1)).microbatches, 8);
}

}  // namespace
}  // namespace plumbline
