#include "scenarios/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace plumbline {
namespace {

using ::testing::HasSubstr;

class ReportTest : public ::testing::Test {
 protected:
  ReportTest() {
    divergence_.site.step = 2;
    divergence_.site.microbatch = 1;
    divergence_.site.tensor = "decoder.layers.0.mlp.linear_fc2";
    divergence_.ranks = {2, 3};
    divergence_.rank = 3;
    divergence_.index = 7;
    divergence_.shape = {2, 4};
    divergence_.actual = 0.5;
    divergence_.reference = 0.25;
    divergence_.deviation = 0.125;
    divergence_.bound = 1e-11;
  }
  static RunConfig Config(int pp, int chunks) {
    RunConfig config;
    config.model.num_layers = 4;
    config.parallel.tp = 2;
    config.parallel.dp = pp > 1 ? 1 : 2;
    config.parallel.pp = pp;
    config.parallel.virtual_stages = chunks;
    return config;
  }

  RunConfig config_ = Config(1, 1);
  Mesh mesh_{config_.parallel};
  Divergence divergence_;
};

TEST_F(ReportTest, MessageHasWhoWhereWhatAndBothValues) {
  const Finding finding =
      MakeFinding(divergence_, mesh_, StageLayout(config_), nullptr, "plumbline verify --tp 2");
  EXPECT_EQ(finding.kind, FindingClass::kValueMismatch);
  EXPECT_EQ(finding.actual, "0.5 at [1, 3]");
  EXPECT_EQ(finding.reference, "0.25 at [1, 3]");
  EXPECT_EQ(finding.group, "tp{2,3}");
  EXPECT_EQ(finding.repeat, "plumbline verify --tp 2");
  EXPECT_EQ(finding.message,
            "ranks 2,3 tp{2,3}: step 2 microbatch 1 forward decoder.layers.0.mlp.linear_fc2 value "
            "is 0.5 at [1, 3] on rank 3, reference 0.25 at [1, 3] (deviation 1.25e-01, bound "
            "1.0e-11)");
}

TEST_F(ReportTest, FormulaAndCauseAreAdded) {
  Diagnosis diagnosis;
  diagnosis.group = "dp{0,2}";
  diagnosis.formula = Formula{"actual = 2 * reference", 1e-15, "dp", "an average left out"};
  const Finding finding = MakeFinding(divergence_, mesh_, StageLayout(config_), &diagnosis, "");
  EXPECT_EQ(finding.group, "dp{0,2}");
  EXPECT_EQ(finding.formula, "actual = 2 * reference");
  EXPECT_EQ(finding.residual, 1e-15);
  EXPECT_THAT(
      finding.message,
      HasSubstr("; actual = 2 * reference (residual 1.0e-15); usually an average left out"));
}

TEST_F(ReportTest, CountersMustBeEqual) {
  divergence_.bound = 0;
  divergence_.index = -1;
  divergence_.shape = {};
  divergence_.actual = 4;
  divergence_.reference = 3;
  EXPECT_THAT(MakeFinding(divergence_, mesh_, StageLayout(config_), nullptr, "").message,
              HasSubstr("is 4 on rank 3, reference 3 (must be equal)"));
}

TEST_F(ReportTest, SignOfANanIsNotSaid) {
  divergence_.actual = -std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(MakeFinding(divergence_, mesh_, StageLayout(config_), nullptr, "").actual,
            "nan at [1, 3]");
}

TEST_F(ReportTest, NoteStandsInPlaceOfValues) {
  divergence_.rank = -1;
  divergence_.note = "no rank holds an element of the reference";
  EXPECT_THAT(MakeFinding(divergence_, mesh_, StageLayout(config_), nullptr, "").message,
              HasSubstr("value: no rank holds an element of the reference [1, 3]"));
}

TEST_F(ReportTest, OneRankHasNoGroup) {
  divergence_.ranks = {3};
  EXPECT_EQ(MakeFinding(divergence_, mesh_, StageLayout(config_), nullptr, "").group, "");
  divergence_.ranks = {1, 2};
  EXPECT_EQ(MakeFinding(divergence_, mesh_, StageLayout(config_), nullptr, "").group,
            "tp-dp{0,1,2,3}");
}

TEST_F(ReportTest, APipelineHasStagesAndChunks) {
  // Stage 1 holds ranks 2 and 3.
  const RunConfig flat = Config(2, 1);
  const Mesh mesh(flat.parallel);
  const Finding one = MakeFinding(divergence_, mesh, StageLayout(flat), nullptr, "");
  EXPECT_THAT(one.message, HasSubstr("ranks 2,3 (stage 1) tp{2,3}: step 2"));
  EXPECT_EQ(one.places, (std::vector<PipelinePlace>{{1, -1}}));
  const RunConfig chunked = Config(2, 2);
  divergence_.site.tensor = "decoder.layers.1.mlp_bda";  // made by stage 1, received by stage 0
  divergence_.ranks = {0, 2};
  const Finding two = MakeFinding(divergence_, mesh, StageLayout(chunked), nullptr, "");
  EXPECT_THAT(two.message, HasSubstr("ranks 0,2 (stage 0 chunk 1, stage 1 chunk 0) pp{0,2}: "));
  EXPECT_EQ(two.places, (std::vector<PipelinePlace>{{0, 1}, {1, 0}}));
}

TEST_F(ReportTest, ARankThatDoesNotHoldATensorHasItsStageAlone) {
  const RunConfig config = Config(2, 2);
  const Mesh mesh(config.parallel);
  EXPECT_EQ(PlacesOf(StageLayout(config), mesh, "decoder.layers.0.mlp.linear_fc2", {0, 2}),
            (std::vector<PipelinePlace>{{0, 0}, {1, -1}}));
  EXPECT_TRUE(
      PlacesOf(StageLayout(config_), mesh_, "decoder.layers.0.mlp.linear_fc2", {0}).empty());
}

TEST(PlacesTextTest, NamesStagesAndChunks) {
  EXPECT_EQ(PlacesText({{2, -1}}), "stage 2");
  EXPECT_EQ(PlacesText({{0, -1}, {3, -1}}), "stages 0,3");
  EXPECT_EQ(PlacesText({{0, 1}, {1, -1}}), "stage 0 chunk 1, stage 1");
}

TEST(RanksTextTest, LongListsAreShortened) {
  EXPECT_EQ(RanksText({4}), "rank 4");
  EXPECT_EQ(RanksText({1, 2}), "ranks 1,2");
  EXPECT_EQ(RanksText({0, 1, 2, 3, 4, 5, 6, 7, 8}), "ranks 0,1,..,8 (9 of them)");
}

}  // namespace
}  // namespace plumbline
