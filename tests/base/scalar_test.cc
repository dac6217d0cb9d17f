#include "base/scalar.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace plumbline {
namespace {

template <class T>
class ScalarTest : public ::testing::Test {};
using Types = ::testing::Types<double, float>;
TYPED_TEST_SUITE(ScalarTest, Types);

template <class T>
constexpr T kInf = std::numeric_limits<T>::infinity();
template <class T>
constexpr T kNaN = std::numeric_limits<T>::quiet_NaN();
// Enough for a handful of rounded operations on values near 1, and nothing like a wrong formula.
template <class T>
constexpr T kEps = 8 * std::numeric_limits<T>::epsilon();

TYPED_TEST(ScalarTest, SigmoidOfMinusXIsTheComplement) {
  using S = ScalarTraits<TypeParam>;
  for (TypeParam x :
       {TypeParam(-30), TypeParam(-1.5), TypeParam(0), TypeParam(0.25), TypeParam(9)}) {
    EXPECT_NEAR(S::Sigmoid(x) + S::Sigmoid(-x), 1, kEps<TypeParam>);
    EXPECT_NEAR(S::Sigmoid(2 * x), (1 + S::Tanh(x)) / 2, kEps<TypeParam>);
  }
}

TEST(ScalarF64Test, NormalPdfIsTheDerivativeOfNormalCdf) {
  using S = ScalarTraits<double>;
  const double h = 1e-5;
  for (double x : {-3.0, -0.7, 0.0, 0.4, 2.5}) {
    EXPECT_NEAR((S::NormalCdf(x + h) - S::NormalCdf(x - h)) / (2 * h), S::NormalPdf(x), 1e-9);
  }
  EXPECT_EQ(S::NormalCdf(0), 0.5);
  EXPECT_NEAR(S::NormalCdf(1.959963984540054), 0.975, 1e-15);
}

TYPED_TEST(ScalarTest, ClipCoefficientNeverGrowsAndKeepsNaN) {
  using S = ScalarTraits<TypeParam>;
  EXPECT_EQ(S::ClipCoefficient(1, TypeParam(0.5)), TypeParam(1));
  EXPECT_NEAR(S::ClipCoefficient(1, 4), TypeParam(0.25), TypeParam(1e-6));
  EXPECT_NE(S::ClipCoefficient(1, 4), TypeParam(0.25)) << "the 1e-6 is missing";
  EXPECT_TRUE(std::isnan(S::ClipCoefficient(1, kNaN<TypeParam>)));
}

TYPED_TEST(ScalarTest, ReluAndStep) {
  using S = ScalarTraits<TypeParam>;
  EXPECT_EQ(S::Relu(TypeParam(-2)), TypeParam(0));
  EXPECT_EQ(S::Relu(TypeParam(2)), TypeParam(2));
  EXPECT_TRUE(std::isnan(S::Relu(kNaN<TypeParam>)));
  EXPECT_EQ(S::Step(TypeParam(-2)), TypeParam(0));
  EXPECT_EQ(S::Step(TypeParam(0)), TypeParam(0));
  EXPECT_EQ(S::Step(TypeParam(2)), TypeParam(1));
}

TYPED_TEST(ScalarTest, NoMaximumLosesNaN) {
  using S = ScalarTraits<TypeParam>;
  const auto one = S::ToScore(1);
  const auto nan = S::ToScore(kNaN<TypeParam>);
  EXPECT_TRUE(std::isnan(S::Max(one, nan).value));
  EXPECT_TRUE(std::isnan(S::Max(nan, one).value));
  EXPECT_EQ(S::Max(one, S::LowestScore()).value, TypeParam(1));
  EXPECT_EQ(S::Max(S::LowestScore(), one).value, TypeParam(1));
}

TYPED_TEST(ScalarTest, SoftmaxByBlocksIsSoftmaxOfAll) {
  using S = ScalarTraits<TypeParam>;
  const TypeParam scores[] = {TypeParam(0.5), TypeParam(-2), TypeParam(3), TypeParam(1)};
  const auto log_sum = [&](int begin, int end) {
    auto max = S::LowestScore();
    for (int i = begin; i < end; ++i) max = S::Max(max, S::ToScore(scores[i]));
    TypeParam sum = 0;
    for (int i = begin; i < end; ++i) sum += S::ExpShifted(S::ToScore(scores[i]), max);
    return S::MakeLogSum(max, sum);
  };
  const auto all = log_sum(0, 4);
  const auto merged = S::LogAdd(log_sum(0, 1), log_sum(1, 4));
  EXPECT_NEAR(S::Log(merged), S::Log(all), kEps<TypeParam>);
  TypeParam total = 0;
  for (TypeParam score : scores) total += S::Probability(S::ToScore(score), all);
  EXPECT_NEAR(total, 1, kEps<TypeParam>);
  EXPECT_NEAR(S::Weight(log_sum(0, 1), all), S::Probability(S::ToScore(scores[0]), all),
              kEps<TypeParam>);
}

TYPED_TEST(ScalarTest, EmptySumsAreNeutral) {
  using S = ScalarTraits<TypeParam>;
  const auto empty = S::MakeLogSum(S::LowestScore(), 0);
  const auto one = S::MakeLogSum(S::ToScore(1), 1);
  EXPECT_EQ(S::Log(empty), -kInf<TypeParam>);
  EXPECT_EQ(S::Log(S::LogAdd(empty, empty)), -kInf<TypeParam>);
  EXPECT_EQ(S::Log(S::LogAdd(empty, one)), TypeParam(1));
  EXPECT_EQ(S::Log(S::LogAdd(one, empty)), TypeParam(1));
  EXPECT_EQ(S::Weight(empty, empty), TypeParam(0));
  EXPECT_EQ(S::Probability(S::LowestScore(), empty), TypeParam(0));
  EXPECT_EQ(S::ExpShifted(S::LowestScore(), S::LowestScore()), TypeParam(0));
}

TYPED_TEST(ScalarTest, LogAddKeepsNaN) {
  using S = ScalarTraits<TypeParam>;
  const typename S::LogSum nan = {kNaN<TypeParam>};
  for (TypeParam other : {-kInf<TypeParam>, TypeParam(0)}) {
    EXPECT_TRUE(std::isnan(S::LogAdd(nan, {other}).value));
    EXPECT_TRUE(std::isnan(S::LogAdd({other}, nan).value));
  }
}

TYPED_TEST(ScalarTest, RotaryLiesOnTheUnitCircle) {
  using S = ScalarTraits<TypeParam>;
  for (int64_t position : {0, 1, 17, 4096}) {
    const Rotation<TypeParam> turn = S::Rotary(position, 3, 0.01);
    EXPECT_NEAR(turn.cos * turn.cos + turn.sin * turn.sin, 1, kEps<TypeParam>);
    EXPECT_NEAR(std::atan2(turn.sin, turn.cos), std::remainder(position * 0.01, 2 * M_PI), 1e-5);
  }
}

TYPED_TEST(ScalarTest, PowIntIsRepeatedMultiplication) {
  TypeParam expected = 1;
  for (int64_t n = 0; n < 20; ++n) {
    EXPECT_EQ(PowInt(TypeParam(3) / 2, n), expected) << n;  // exact in both widths up to n = 14
    if (n == 14) break;
    expected *= TypeParam(3) / 2;
  }
}

}  // namespace
}  // namespace plumbline
