#include "oracle/recorder.h"

#include <gtest/gtest.h>

#include "oracle/dual.h"
#include "tests/oracle/fixtures.h"

namespace plumbline {
namespace {

TEST(RecorderTest, RecordsSiteShapeAndValues) {
  RecordingSink sink;
  Recorder<double> recorder(&sink);
  recorder.set_step(2);
  recorder.set_microbatch(3);
  recorder.Record(Phase::kBackward, Quantity::kGradient, "x", 1, Matrix<double>::Constant(2, 3, 7),
                  {1, 2, 3});
  recorder.RecordScalar(Phase::kNorm, "norm", 5);
  recorder.RecordCounter("samples", 9);
  ASSERT_EQ(sink.records.size(), 3u);
  const Site expected = {2, 3, -1, 1, Phase::kBackward, Quantity::kGradient, "x"};
  EXPECT_EQ(sink.records[0].site, expected);
  EXPECT_EQ(sink.records[0].tensor.shape(), (Shape{1, 2, 3}));
  EXPECT_EQ(sink.records[0].tensor.at<double>({0, 1, 2}), 7);
  EXPECT_EQ(sink.records[1].tensor.shape(), Shape{});
  EXPECT_EQ(sink.records[2].counter, 9);
  EXPECT_EQ(sink.records[2].site.quantity, Quantity::kCounter);
}

TEST(RecorderTest, DualNumbersAndMissingSinksAreNotRecorded) {
  RecordingSink sink;
  Recorder<Dual<double>> recorder(&sink);
  recorder.RecordScalar(Phase::kNorm, "norm", Dual<double>(5));
  EXPECT_TRUE(sink.records.empty());
  Recorder<double> nowhere(nullptr);
  nowhere.RecordScalar(Phase::kNorm, "norm", 5);
  nowhere.RecordCounter("samples", 9);
}

}  // namespace
}  // namespace plumbline
