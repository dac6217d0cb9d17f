#include "scenarios/number.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace plumbline {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Number InField(int64_t n) { return Fraction(DType::kM61, n, 1); }

TEST(NumberTest, DoublesComputeAsDoubles) {
  EXPECT_EQ((Number(1.5) + 2.0 * Number(0.25)).real(), 2.0);
  EXPECT_EQ((Number(1.0) / Number(3.0)).real(), 1.0 / 3);
  EXPECT_FALSE(Number(kNan) == Number(kNan));
  EXPECT_TRUE(Number(1.0) < Number(2.0));
}

TEST(NumberTest, ADoubleBecomesItsExactValueBesideAResidue) {
  EXPECT_EQ(0.5 * InField(6), InField(3));
  EXPECT_EQ(InField(1) - 2.0, InField(-1));
  EXPECT_EQ(1.0 / InField(3), Fraction(DType::kM61, 1, 3));
  EXPECT_FALSE(InField(1) * Number(1.0 / 3) == Fraction(DType::kM61, 1, 3)) << "a rounded third";
  EXPECT_TRUE(InField(7) == 7.0);
}

TEST(NumberTest, DivisionByZeroMakesNoRunVoid) {
  const int64_t before = CurrentFieldRun().divisions_by_zero;
  EXPECT_EQ(InField(3) / InField(0), InField(0));
  EXPECT_EQ(CurrentFieldRun().divisions_by_zero, before);
}

TEST(NumberTest, SmallFractionsAreRecovered) {
  for (const DType dtype : {DType::kM61, DType::kP50, DType::kP31}) {
    for (const int64_t n : {-47, -1, 0, 1, 3, 500}) {
      for (const int64_t d : {1, 2, 7, 64, 499}) {
        const auto fraction = AsSmallFraction(Fraction(dtype, n, d));
        ASSERT_TRUE(fraction) << Name(dtype) << " " << n << "/" << d;
        EXPECT_EQ(fraction->n * d, n * fraction->d);
        EXPECT_GT(fraction->d, 0);
      }
    }
  }
}

// In a field of 1009 elements everything would be a fraction of small parts.
TEST(NumberTest, ChanceMakesNoFraction) {
  int64_t found = 0;
  for (uint64_t i = 0; i < 2000; ++i) {
    const M61 random = ScalarTraits<M61>::Any(FieldFunction::kInit, i);
    found += AsSmallFraction(Number(random)) ? 1 : 0;
  }
  EXPECT_EQ(found, 0);
  SetSmallPrime(1009);
  EXPECT_FALSE(AsSmallFraction(Fraction(DType::kP31, 3, 7)));
  SetSmallPrime(2147483647);
}

TEST(NumberTest, TextIsTheFractionOrTheResidue) {
  EXPECT_EQ(ToString(Number(0.25)), "0.25");
  EXPECT_EQ(ToString(Number(-kNan)), "nan");
  EXPECT_EQ(ToString(Fraction(DType::kM61, -3, 4)), "-3/4");
  EXPECT_EQ(ToString(InField(-2)), "-2");
  EXPECT_EQ(ToString(Number(M61{123456789012345678})), "123456789012345678");
}

TEST(NumberTest, DistanceIsZeroOrOneInAField) {
  EXPECT_EQ(Distance(1.0, 3.5), 2.5);
  EXPECT_TRUE(std::isnan(Distance(1.0, kNan)));
  EXPECT_EQ(Distance(InField(3), InField(3)), 0);
  EXPECT_EQ(Distance(InField(3), InField(5)), 1);
}

TEST(NumberTest, SizeIsThatOfASmallFraction) {
  EXPECT_EQ(Size(Fraction(DType::kM61, -1, 4)), -0.25);
  EXPECT_TRUE(std::isnan(Size(Number(M61{123456789012345678}))));
}

TEST(ToValuesTest, FloatsOfAnyWidthBecomeDoubles) {
  const Values expected = {0.75, -6};
  const std::vector<double> values = {1.5, -12};
  const auto of = [&]<class T>() {
    const std::vector<T> narrow(values.begin(), values.end());
    return ToValues(Tensor::FromVector(Context{}, {2}, narrow), 0.5);
  };
  EXPECT_EQ(of.template operator()<double>(), expected);
  EXPECT_EQ(of.template operator()<float>(), expected);
  EXPECT_EQ(of.template operator()<BF16>(), expected);
  EXPECT_EQ(of.template operator()<F16>(), expected);
}

TEST(ToValuesTest, ResiduesStayExact) {
  const Tensor tensor = Tensor::FromVector<M61>(Context{}, {2}, {M61{4}, M61{9}});
  EXPECT_EQ(ToValues(tensor), (Values{InField(4), InField(9)}));
  EXPECT_EQ(ToValues(tensor, Fraction(DType::kM61, 1, 2)),
            (Values{InField(2), Fraction(DType::kM61, 9, 2)}));
}

}  // namespace
}  // namespace plumbline
