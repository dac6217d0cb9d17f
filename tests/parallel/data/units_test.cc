#include "parallel/data/units.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace plumbline {
namespace {

TEST(ParametersOf, ListsATiedWeightOnce) {
  Parameter table;
  Parameter layer;
  Parameter norm;
  EXPECT_EQ(ParametersOf({{&table}, {&layer}, {&norm, &table}}),
            (std::vector<Parameter*>{&table, &layer, &norm}));
}

TEST(HoldsPoison, SeesAnyElementThatNobodyWrote) {
  Tensor tensor = Tensor::Zeros(Context{}, DType::kF64, {5});
  EXPECT_FALSE(HoldsPoison(tensor));
  tensor.Slice(0, 3, 4).FillPoison();
  EXPECT_TRUE(HoldsPoison(tensor));
  tensor.at<double>({3}) = std::numeric_limits<double>::quiet_NaN();  // a NaN that was computed
  EXPECT_FALSE(HoldsPoison(tensor));
}

}  // namespace
}  // namespace plumbline
