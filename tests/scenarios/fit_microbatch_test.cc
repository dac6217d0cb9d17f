#include "scenarios/fit_microbatch.h"

#include <gtest/gtest.h>

#include "tests/scenarios/evidence_testing.h"

namespace plumbline {
namespace {

class FitMicrobatchTest : public ::testing::Test {
 protected:
  FitMicrobatchTest() : evidence_(MakeEvidence({6, 5}, {Sharded("tp", {ShardStep::Block(0)})})) {
    gradients_ = {RandomValues(30, 3), RandomValues(30, 4), RandomValues(30, 5)};
    evidence_.reference = Weighted({1, 1, 1});
  }
  Values Weighted(const Values& weights) const {
    Values sum(30, 0.0);
    for (size_t m = 0; m < weights.size(); ++m) sum = AddScaled(sum, weights[m], gradients_[m]);
    return sum;
  }
  void HoldWeighted(const Values& weights) {
    const Values whole = Weighted(weights);
    Hold(evidence_, [&](const RankPiece& piece) { return Pick(whole, piece.index); });
  }

  Evidence evidence_;
  std::vector<Values> gradients_;
};

TEST_F(FitMicrobatchTest, MissingAndDoubledMicrobatchesAreFound) {
  HoldWeighted({1, 0, 2});
  EXPECT_EQ(FitMicrobatches(evidence_, gradients_)->text,
            "actual = sum of microbatch gradients with weights [1, 0, 2]");
}

TEST_F(FitMicrobatchTest, UnevenMeansAreFound) {
  HoldWeighted({1.25, 1.25, 0.5});
  EXPECT_EQ(FitMicrobatches(evidence_, gradients_)->text,
            "actual = sum of microbatch gradients with weights [1.25, 1.25, 0.5]");
}

TEST_F(FitMicrobatchTest, OtherGradientsDoNotFit) {
  HoldWeighted({1, 0, 2});
  for (RankPiece& piece : evidence_.pieces) piece.values[0] += 1e-6;
  EXPECT_FALSE(FitMicrobatches(evidence_, gradients_));
}

TEST_F(FitMicrobatchTest, TooFewElementsProveNothing) {
  Evidence scalar = MakeEvidence({}, {});
  HoldOnRank(scalar, 0, {0.5});
  EXPECT_FALSE(FitMicrobatches(scalar, {{0.25}, {0.5}}));
  EXPECT_FALSE(FitMicrobatches(scalar, {}));
}

}  // namespace
}  // namespace plumbline
