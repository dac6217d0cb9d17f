#include "scenarios/named_numbers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/scenarios/scenario_testing.h"

namespace plumbline {
namespace {

class NamedNumbersTest : public ::testing::Test {
 protected:
  NamedNumbersTest()
      : scenario_(MakeScenario(NamedModels()[0], {2, 3, false}, 5)),
        batches_(scenario_.config.model, scenario_.config.train, {3, 1, 4, 1, 5, 9, 2, 6}) {
    site_.step = 1;
    site_.microbatch = 2;
    site_.phase = Phase::kBackward;
    Make();
  }
  void Make() {
    numbers_ = NumbersOf(scenario_.config, batches_, Mesh(scenario_.config.parallel), site_);
  }
  std::string NameOfValue(double value) const {
    const auto found =
        std::find_if(numbers_.begin(), numbers_.end(),
                     [&](const NamedNumber& number) { return number.value == value; });
    return found == numbers_.end() ? "none" : found->name;
  }

  Scenario scenario_;
  TextBatches batches_;
  Site site_;
  std::vector<NamedNumber> numbers_;
};

TEST_F(NamedNumbersTest, SizesAndTheirSharesAreNamed) {
  EXPECT_EQ(NameOfValue(2), "tp");
  EXPECT_EQ(NameOfValue(-0.5), "-1/tp");
  EXPECT_EQ(NameOfValue(3), "dp");
  EXPECT_EQ(NameOfValue(1.0 / 3), "1/dp");
  EXPECT_EQ(NameOfValue(5), "num_microbatches");
  EXPECT_EQ(NameOfValue(15), "microbatches of all ranks");
  EXPECT_EQ(NameOfValue(6), "ranks");
  EXPECT_EQ(NameOfValue(scenario_.config.train.lr), "lr");
}

TEST_F(NamedNumbersTest, LabelsAreCounted) {
  const double labels = LabelsOf(batches_, 1, 2);
  EXPECT_GT(labels, 0);
  EXPECT_LT(labels, 2 * 16) << "the mask leaves some out";
  EXPECT_NE(NameOfValue(labels), "none");
}

TEST_F(NamedNumbersTest, AForwardKnowsOfItsMicrobatchAlone) {
  site_.phase = Phase::kForward;
  site_.tensor = "decoder.layers.0.mlp.linear_fc1";
  Make();
  EXPECT_EQ(NameOfValue(3), "dp");
  EXPECT_EQ(NameOfValue(15), "none");
  site_.tensor = "loss";
  Make();
  EXPECT_EQ(NameOfValue(15), "microbatches of all ranks");
}

TEST_F(NamedNumbersTest, ATiedTableCountsTheStagesThatHoldIt) {
  scenario_.config.parallel.pp = 2;
  site_.tensor = kWordTable;
  Make();
  EXPECT_EQ(NameOfValue(2), "stages that hold the table");
  scenario_.config.model.tied_embeddings = false;
  Make();
  EXPECT_EQ(NameOfValue(2), "tp");
}

TEST_F(NamedNumbersTest, PowersOfTwoHaveNoName) {
  EXPECT_EQ(NameOfValue(8), "");
  EXPECT_EQ(NameOfValue(1), "");
  EXPECT_EQ(NameOfValue(7), "none");
}

TEST_F(NamedNumbersTest, AValueIsListedUnderEachOfItsNames) {
  std::vector<std::string> names;
  for (const NamedNumber& number : numbers_) {
    if (number.value == 2) names.push_back(number.name + (number.neighbour ? " (neighbour)" : ""));
  }
  EXPECT_THAT(names, ::testing::ElementsAre("tp", "", "dp - 1 (neighbour)"));
}

TEST(ToValuesTest, TakesAnyFloatAndAnyStrides) {
  const Tensor tensor =
      Tensor::FromVector(Context{}, {2, 2}, std::vector<float>{1, 2, 3, 4}).Transpose(0, 1);
  EXPECT_EQ(ToValues(tensor, 0.5), (Values{0.5, 1.5, 1, 2}));
}

TEST(IsStartingParameterTest, IsTheParameterBeforeTheStep) {
  Site site;
  site.quantity = Quantity::kParameter;
  site.step = 2;
  EXPECT_TRUE(IsStartingParameter(site, 3));
  EXPECT_FALSE(IsStartingParameter(site, 2));
  site.step = 0;
  EXPECT_TRUE(IsStartingParameter(site, 1));
  EXPECT_TRUE(IsStartingParameter(site, 0));
  site.quantity = Quantity::kExpAvg;
  EXPECT_FALSE(IsStartingParameter(site, 1));
}

}  // namespace
}  // namespace plumbline
