#include "scenarios/scattered_sum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plumbline {
namespace {

using ::testing::ElementsAre;

template <class T>
Tensor Of(const std::vector<T>& values) {
  return Tensor::FromVector(Context{}, {static_cast<int64_t>(values.size())}, values);
}

TEST(ScatteredSumTest, TermsAddWhereTheyOverlapAndStandAloneElsewhere) {
  const Tensor a = Of<double>({1, 2, 3});
  const Tensor b = Of<double>({10, 20});
  const std::vector<IndexRun> runs_a = {{0, 4, 2}, {2, 0, 1}};
  const std::vector<IndexRun> runs_b = {{0, 5, 2}};
  const ScatteredSum sum = AddScattered({{&a, &runs_a}, {&b, &runs_b}}, 8);
  EXPECT_THAT(sum.global_index, ElementsAre(0, 4, 5, 6));
  EXPECT_THAT(sum.values.ToVector<double>(), ElementsAre(3, 1, 12, 20));
}

TEST(ScatteredSumTest, AddsInTheDtypeAndInTheOrderOfTheTerms) {
  const Tensor big = Of<float>({1e8F});
  const Tensor one = Of<float>({1});
  const Tensor minus = Of<float>({-1e8F});
  const std::vector<IndexRun> runs = {{0, 0, 1}};
  const auto sum = [&](const Tensor& a, const Tensor& b, const Tensor& c) {
    return AddScattered({{&a, &runs}, {&b, &runs}, {&c, &runs}}, 1).values.ToVector<float>()[0];
  };
  EXPECT_EQ(sum(big, one, minus), 0) << "1 is lost beside 1e8 in f32";
  EXPECT_EQ(sum(big, minus, one), 1);
}

TEST(ScatteredSumTest, NegativeZeroOfOneTermStays) {
  const Tensor zero = Of<double>({-0.0});
  const std::vector<IndexRun> runs = {{0, 0, 1}};
  EXPECT_TRUE(std::signbit(AddScattered({{&zero, &runs}}, 1).values.ToVector<double>()[0]));
}

}  // namespace
}  // namespace plumbline
