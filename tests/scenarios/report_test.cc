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
  static ParallelConfig Layout() {
    ParallelConfig parallel;
    parallel.tp = 2;
    parallel.dp = 2;
    return parallel;
  }

  Mesh mesh_{Layout()};
  Divergence divergence_;
};

TEST_F(ReportTest, MessageHasWhoWhereWhatAndBothValues) {
  const Finding finding = MakeFinding(divergence_, mesh_, nullptr, "plumbline verify --tp 2");
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
  const Finding finding = MakeFinding(divergence_, mesh_, &diagnosis, "");
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
  EXPECT_THAT(MakeFinding(divergence_, mesh_, nullptr, "").message,
              HasSubstr("is 4 on rank 3, reference 3 (must be equal)"));
}

TEST_F(ReportTest, SignOfANanIsNotSaid) {
  divergence_.actual = -std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(MakeFinding(divergence_, mesh_, nullptr, "").actual, "nan at [1, 3]");
}

TEST_F(ReportTest, NoteStandsInPlaceOfValues) {
  divergence_.rank = -1;
  divergence_.note = "no rank holds an element of the reference";
  EXPECT_THAT(MakeFinding(divergence_, mesh_, nullptr, "").message,
              HasSubstr("value: no rank holds an element of the reference [1, 3]"));
}

TEST_F(ReportTest, OneRankHasNoGroup) {
  divergence_.ranks = {3};
  EXPECT_EQ(MakeFinding(divergence_, mesh_, nullptr, "").group, "");
  divergence_.ranks = {1, 2};
  EXPECT_EQ(MakeFinding(divergence_, mesh_, nullptr, "").group, "tp-dp{0,1,2,3}");
}

TEST(RanksTextTest, LongListsAreShortened) {
  EXPECT_EQ(RanksText({4}), "rank 4");
  EXPECT_EQ(RanksText({1, 2}), "ranks 1,2");
  EXPECT_EQ(RanksText({0, 1, 2, 3, 4, 5, 6, 7, 8}), "ranks 0,1,..,8 (9 of them)");
}

}  // namespace
}  // namespace plumbline
