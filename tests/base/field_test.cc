#include "base/field.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/rng.h"

namespace plumbline {
namespace {

using uint128 = unsigned __int128;

template <class T>
class FieldTest : public testing::Test {
 protected:
  void SetUp() override { CurrentFieldRun() = {}; }
  // Residues with the corners of the range among them.
  static std::vector<T> Samples() {
    const uint64_t p = T::prime();
    std::vector<T> samples = {{0}, {1}, {2}, {p - 1}, {p - 2}, {p / 2}, {p / 2 + 1}};
    const RandomStream stream{7, 11};
    for (uint64_t i = 0; i < 40; ++i) samples.push_back({stream.Bits(i) % p});
    return samples;
  }
};
using Fields = testing::Types<M61, P50, P31>;
TYPED_TEST_SUITE(FieldTest, Fields);

TYPED_TEST(FieldTest, ArithmeticAgreesWithWideIntegers) {
  const uint64_t p = TypeParam::prime();
  for (TypeParam a : this->Samples()) {
    EXPECT_EQ((-a).v, (p - a.v) % p);
    for (TypeParam b : this->Samples()) {
      EXPECT_EQ((a + b).v, static_cast<uint64_t>((static_cast<uint128>(a.v) + b.v) % p));
      EXPECT_EQ((a - b).v, static_cast<uint64_t>((static_cast<uint128>(a.v) + p - b.v) % p));
      EXPECT_EQ((a * b).v, static_cast<uint64_t>(static_cast<uint128>(a.v) * b.v % p))
          << a.v << " * " << b.v;
    }
  }
}

TYPED_TEST(FieldTest, LazyReductionHoldsTheStatedNumberOfTerms) {
  const uint64_t p = TypeParam::prime();
  const uint128 square = static_cast<uint128>(p - 1) * (p - 1);
  uint128 sum = 0;
  for (int64_t i = 0; i < TypeParam::kLazyTerms; ++i) {
    ASSERT_GE(sum + square, sum) << "overflow at term " << i;
    sum += square;
  }
  EXPECT_EQ(TypeParam::Reduce(sum).v, static_cast<uint64_t>(sum % p));
}

TYPED_TEST(FieldTest, InverseTimesItselfIsOne) {
  for (TypeParam a : this->Samples()) {
    if (a.v != 0) {
      EXPECT_EQ((a * TypeParam::Inverse(a)).v, 1u) << a.v;
    }
  }
  EXPECT_EQ(CurrentFieldRun().divisions_by_zero, 0);
}

TYPED_TEST(FieldTest, DivisionByZeroIsCounted) {
  EXPECT_EQ((TypeParam{5} / TypeParam{0}).v, 0u);
  EXPECT_EQ(CurrentFieldRun().divisions_by_zero, 1);
}

TYPED_TEST(FieldTest, DivideAllEqualsDivisionOneByOne) {
  const std::vector<TypeParam> values = this->Samples();
  for (size_t skip : {size_t{0}, size_t{1}}) {  // with and without the 0 in it
    std::vector<TypeParam> top(values.begin() + skip, values.end());
    std::vector<TypeParam> bottom(values.rbegin(), values.rend() - skip);
    std::vector<TypeParam> expected;
    for (size_t i = 0; i < top.size(); ++i) expected.push_back(top[i] / bottom[i]);
    DivideAll<TypeParam>(top, bottom);
    EXPECT_EQ(top, expected);
  }
}

TYPED_TEST(FieldTest, LiteralsAreExactDyadics) {
  using Traits = ScalarTraits<TypeParam>;
  EXPECT_EQ(Traits::FromDouble(1.0).v, 1u);
  EXPECT_EQ((Traits::FromDouble(0.75) * Traits::FromInt(4)).v, 3u);
  EXPECT_EQ(Traits::FromDouble(-2.5) + Traits::FromDouble(2.5), TypeParam{0});
  // 0.1 is m * 2^-55 with m = 3602879701896397, exactly.
  EXPECT_EQ(Traits::FromDouble(0.1) * PowInt(Traits::FromInt(2), 55),
            Traits::FromInt(3602879701896397));
  EXPECT_NE(Traits::FromDouble(0.1), Traits::FromDouble(static_cast<double>(0.1f)));
  EXPECT_NE(Traits::FromDouble(0.1), Traits::FromInt(1) / Traits::FromInt(10));
  EXPECT_THROW(Traits::FromDouble(std::nan("")), InvalidArgument);
}

TYPED_TEST(FieldTest, ExponentialsMultiplyWhenScoresAdd) {
  using Traits = ScalarTraits<TypeParam>;
  for (TypeParam x : this->Samples()) {
    const auto s = Traits::ToScore(x);
    const auto shift = Traits::ToScore(x + TypeParam{1});
    const auto zero = typename Traits::Score{0};
    EXPECT_EQ(Traits::ExpShifted(s, shift) * Traits::ExpShifted(shift, zero),
              Traits::ExpShifted(s, zero));
    // A sum shifted by any maximum gives the same log-sum.
    EXPECT_EQ(Traits::MakeLogSum(shift, Traits::ExpShifted(s, shift)).sum,
              Traits::ExpShifted(s, zero));
    EXPECT_EQ(Traits::Probability(s, Traits::MakeLogSum(zero, Traits::ExpShifted(s, zero))),
              TypeParam{1});
  }
  EXPECT_EQ(Traits::ExpShifted(Traits::LowestScore(), Traits::ToScore({3})), TypeParam{0});
}

TYPED_TEST(FieldTest, PowersOfTheRootRunThroughTheGroup) {
  using Traits = ScalarTraits<TypeParam>;
  const auto order = static_cast<int64_t>(TypeParam::prime()) - 1;
  EXPECT_EQ(Traits::Power(order - 1) * Traits::Power(1), TypeParam{1});
  EXPECT_EQ(Traits::Power(order / 2), -TypeParam{1});
}

TYPED_TEST(FieldTest, StoredScoresKeepTheirOrder) {
  using Traits = ScalarTraits<TypeParam>;
  const auto a = Traits::ToScore({1});
  const auto b = Traits::ToScore({2});
  const bool less = Traits::StoreScore(a).v < Traits::StoreScore(b).v;
  EXPECT_EQ(Traits::Max(a, b).exponent, less ? b.exponent : a.exponent);
  EXPECT_EQ(Traits::LoadScore(Traits::StoreScore(a)).exponent, a.exponent);
  EXPECT_EQ(Traits::LoadScore(Traits::StoreScore(Traits::LowestScore())).exponent, Traits::kLowest);
  EXPECT_EQ(Traits::Max(Traits::LowestScore(), a).exponent, a.exponent);
}

TYPED_TEST(FieldTest, RotationsComposeAndLieOnTheCircle) {
  using Traits = ScalarTraits<TypeParam>;
  const auto a = Traits::Rotary(5, 3, 0.25);
  const auto b = Traits::Rotary(8, 3, 0.25);
  const auto both = Traits::Rotary(13, 3, 0.25);
  EXPECT_EQ(a.cos * a.cos + a.sin * a.sin, TypeParam{1});
  EXPECT_EQ(a.cos * b.cos - a.sin * b.sin, both.cos);
  EXPECT_EQ(a.sin * b.cos + a.cos * b.sin, both.sin);
  EXPECT_NE(Traits::Rotary(5, 4, 0.25).cos, a.cos);
  EXPECT_NE(Traits::Rotary(5, 3, 0.5).cos, a.cos);
}

TYPED_TEST(FieldTest, FunctionsDependOnTheKeyAndSqrtIsNeverZero) {
  using Traits = ScalarTraits<TypeParam>;
  const TypeParam x{12345};
  const TypeParam first = Traits::Sigmoid(x);
  EXPECT_EQ(Traits::Sigmoid(x), first);
  EXPECT_NE(Traits::Tanh(x), first);
  CurrentFieldRun().key = 1;
  EXPECT_NE(Traits::Sigmoid(x), first);
  for (uint64_t i = 0; i < 1000; ++i) EXPECT_NE(Traits::Sqrt({i}).v, 0u);
}

TEST(SmallPrimeTest, PrimeIsChosenAtRunTimeAndChecked) {
  SetSmallPrime(1009);
  EXPECT_EQ((P31{1008} + P31{2}).v, 1u);
  for (uint64_t a = 1; a < 1009; ++a) EXPECT_EQ((P31{a} * P31::Inverse({a})).v, 1u);
  std::set<uint64_t> powers;
  for (int64_t e = 0; e < 1008; ++e) powers.insert(ScalarTraits<P31>::Power(e).v);
  EXPECT_EQ(powers.size(), 1008u);
  for (uint64_t bad : {0u, 1u, 4u, 1008u, 2147483648u})
    EXPECT_THROW(SetSmallPrime(bad), InvalidArgument);
  SetSmallPrime(2147483647);
}

TEST(SmallPrimeTest, KeyedFunctionsAreUniform) {
  SetSmallPrime(101);
  std::vector<int> count(101, 0);
  constexpr int kDraws = 101 * 400;
  for (uint64_t i = 0; i < kDraws; ++i) ++count[ScalarTraits<P31>::Any(FieldFunction::kTanh, i).v];
  double chi_square = 0;
  for (int n : count) chi_square += (n - 400.0) * (n - 400.0) / 400.0;
  EXPECT_LT(chi_square, 160);  // 100 degrees of freedom: mean 100, standard deviation 14
  EXPECT_GT(chi_square, 55);
  SetSmallPrime(2147483647);
}

}  // namespace
}  // namespace plumbline
