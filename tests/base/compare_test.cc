#include "base/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/rng.h"

namespace plumbline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kMax = std::numeric_limits<double>::max();

Tensor VectorOf(const std::vector<double>& values) {
  return Tensor::FromVector(Context{}, {static_cast<int64_t>(values.size())}, values);
}

Difference CompareValues(const std::vector<double>& actual, const std::vector<double>& reference) {
  return Compare(VectorOf(actual), VectorOf(reference));
}

// The definition, one element at a time.
Difference Naive(const std::vector<double>& actual, const std::vector<double>& reference) {
  Difference result;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double a = actual[i];
    const double r = reference[i];
    const bool finite = std::isfinite(a) && std::isfinite(r);
    const bool same = a == r || (std::isnan(a) && std::isnan(r));
    const double diff = same ? 0 : finite ? std::abs(a - r) : kInf;
    ++result.count;
    if (!finite && !same) ++result.nonfinite;
    if (std::isfinite(r))
      result.max_abs_reference = std::max(result.max_abs_reference, std::abs(r));
    if (diff > result.max_abs_diff) {
      result.max_abs_diff = diff;
      result.index = static_cast<int64_t>(i);
      result.actual = a;
      result.reference = r;
    }
  }
  return result;
}

void ExpectSame(const Difference& a, const Difference& b) {
  EXPECT_EQ(a.max_abs_diff, b.max_abs_diff);
  EXPECT_EQ(a.max_abs_reference, b.max_abs_reference);
  EXPECT_EQ(a.index, b.index);
  EXPECT_TRUE(a.actual == b.actual || (std::isnan(a.actual) && std::isnan(b.actual)));
  EXPECT_TRUE(a.reference == b.reference || (std::isnan(a.reference) && std::isnan(b.reference)));
  EXPECT_EQ(a.count, b.count);
  EXPECT_EQ(a.nonfinite, b.nonfinite);
}

// Values with a few special ones, at a rate of about one in `rarity`.
struct Pair {
  std::vector<double> actual;
  std::vector<double> reference;
};
Pair RandomPair(uint64_t seed, size_t n, uint64_t rarity) {
  const RandomStream random = DataStream(seed, "pairs");
  const std::vector<double> special = {kNaN, kInf, -kInf, 0.0, -0.0, kMax, -kMax, 5e-324};
  Pair pair;
  for (size_t i = 0; i < n; ++i) {
    const double r = random.Normal(i * 4);
    pair.reference.push_back(r);
    pair.actual.push_back(r * (1 + 1e-15 * random.Normal(i * 4 + 1)));
    const uint64_t draw = random.Bits(i * 4 + 2);
    if (draw % rarity == 0) pair.actual.back() = special[draw / rarity % special.size()];
    const uint64_t other = random.Bits(i * 4 + 3);
    if (other % rarity == 0) pair.reference.back() = special[other / rarity % special.size()];
  }
  return pair;
}

TEST(CompareTest, EqualsTheDefinition) {
  for (size_t n : {0, 1, 2, 7, 1023, 1024, 1025, 5000}) {
    for (uint64_t rarity : {3, 50, 2000, 1000000}) {
      for (uint64_t seed = 0; seed < 8; ++seed) {
        const Pair pair = RandomPair(seed, n, rarity);
        SCOPED_TRACE(std::to_string(n) + " " + std::to_string(rarity) + " " + std::to_string(seed));
        ExpectSame(CompareValues(pair.actual, pair.reference), Naive(pair.actual, pair.reference));
      }
    }
  }
}

TEST(CompareTest, OneWrongElementIsFoundWherever) {
  const size_t n = 3000;
  const std::vector<double> reference(n, 2.0);
  for (size_t at = 0; at < n; at += 7) {
    for (double wrong : {2.5, kNaN, kInf, -2.0}) {
      std::vector<double> actual = reference;
      actual[at] = wrong;
      const Difference difference = CompareValues(actual, reference);
      ASSERT_EQ(difference.index, static_cast<int64_t>(at));
      ASSERT_FALSE(difference.Within(0.2));
      ASSERT_EQ(difference.nonfinite, std::isfinite(wrong) ? 0 : 1);
    }
  }
}

TEST(DeviationTest, IsTheLargestDifferenceOverTheLargestReference) {
  EXPECT_EQ(CompareValues({1, 2, 9}, {1, 4, 8}).Deviation(), 2.0 / 8);
  EXPECT_EQ(CompareValues({1, 2}, {1, 2}).Deviation(), 0);
  EXPECT_EQ(CompareValues({0, 0}, {0, 0}).Deviation(), 0);
  EXPECT_EQ(CompareValues({0, 1e-300}, {0, 0}).Deviation(), kInf);
  EXPECT_EQ(CompareValues({}, {}).Deviation(), 0);
}

TEST(DeviationTest, BoundHoldsOnBothSides) {
  const Difference difference = CompareValues({1 + 0x1p-40, 1}, {1, 1});
  EXPECT_TRUE(difference.Within(0x1p-40));
  EXPECT_FALSE(difference.Within(0x1p-40 * (1 - 1e-15)));
}

TEST(DeviationTest, NaNAndInfinityMatchOnlyThemselves) {
  EXPECT_EQ(CompareValues({kNaN, kInf, -kInf}, {kNaN, kInf, -kInf}).Deviation(), 0);
  const std::vector<std::pair<double, double>> different = {
      {kNaN, 1}, {1, kNaN}, {kInf, 1}, {1, kInf}, {kInf, -kInf}, {kNaN, kInf}, {kInf, kNaN}};
  for (const auto& [a, r] : different) {
    for (double beside : {0.0, 1.0, kMax}) {
      const Difference difference = CompareValues({beside, a}, {beside, r});
      EXPECT_EQ(difference.Deviation(), kInf) << a << " " << r;
      EXPECT_FALSE(difference.Within(kMax)) << a << " " << r;
      EXPECT_EQ(difference.index, 1);
      EXPECT_EQ(difference.nonfinite, 1);
    }
  }
  EXPECT_FALSE(CompareValues({1}, {1}).Within(kNaN)) << "an undefined bound admits nothing";
}

TEST(DeviationTest, DifferenceThatOverflowsIsInfiniteButNotNonfinite) {
  const Difference difference = CompareValues({kMax}, {-kMax});
  EXPECT_EQ(difference.Deviation(), kInf);
  EXPECT_EQ(difference.nonfinite, 0);
}

TEST(CompareTest, DtypesMayDifferAndStridesAreFree) {
  const Tensor f64 = Tensor::FromVector<double>(Context{}, {2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor f32 = Tensor::FromVector<float>(Context{}, {2, 3}, {1, 2, 3, 4, 5, 6.5});
  const Tensor i64 = Tensor::FromVector<int64_t>(Context{}, {2, 3}, {1, 2, 3, 4, 5, 7});
  const Tensor transposed =
      Tensor::FromVector<double>(Context{}, {3, 2}, {1, 4, 2, 5, 3, 8}).Transpose(0, 1);
  EXPECT_EQ(Compare(f32, f64).max_abs_diff, 0.5);
  EXPECT_EQ(Compare(i64, f64).max_abs_diff, 1);
  EXPECT_EQ(Compare(transposed, f64).max_abs_diff, 2);
  EXPECT_EQ(Compare(transposed, f64).index, 5);
  EXPECT_THROW(Compare(f64, transposed.Transpose(0, 1)), InvalidArgument);
  EXPECT_THROW(Compare(Tensor::Empty(Context{}, DType::kM61, {2, 3}), f64), InvalidArgument);
}

template <class T>
void HalvesCompareByValue() {
  const auto half = [](const std::vector<double>& values) {
    return Tensor::FromVector<T>(Context{}, {2, 2}, std::vector<T>(values.begin(), values.end()));
  };
  const Tensor f64 = Tensor::FromVector<double>(Context{}, {2, 2}, {1, -2, 4, 0x1p-14});
  EXPECT_EQ(Compare(half({1, -2, 4, 0x1p-14}), f64).Deviation(), 0);
  EXPECT_EQ(Compare(half({1, -2.5, 4, 0x1p-14}), f64).Deviation(), 0.125);
  EXPECT_EQ(Compare(half({1, -2, kNaN, 0}), f64).nonfinite, 1);
  EXPECT_EQ(MaxAbs(half({1, -8, kInf, 0})), 8);
  const LocalPiece piece = {{1, 2}, {3, 0}};
  const Tensor row = half({0x1p-14, 1, 0, 0}).Slice(0, 0, 1);
  EXPECT_EQ(ComparePiece(row, piece, f64).Deviation(), 0);
  EXPECT_EQ(ComparePiece(f64.Slice(0, 0, 1), piece, half({-5, 0, 0, 1})).max_abs_diff, 3);
  EXPECT_TRUE(Matches(half({1, 0, 3, 4}), half({1, -0.0, 3, 4}), Strength::WithinUlps(0)).ok);
  EXPECT_FALSE(Matches(half({1, 0, 3, 4}), half({1, -0.0, 3, 4}), Strength::Bitwise()).ok);
}

TEST(CompareTest, BF16ByValue) { HalvesCompareByValue<BF16>(); }
TEST(CompareTest, F16ByValue) { HalvesCompareByValue<F16>(); }

TEST(MaxAbsTest, IsOverTheFiniteValues) {
  EXPECT_EQ(MaxAbs(VectorOf({1, -7, 3})), 7);
  EXPECT_EQ(MaxAbs(VectorOf({1, kNaN, kInf})), 1);
  EXPECT_EQ(MaxAbs(VectorOf({})), 0);
}

Mesh MeshOf(int tp, int dp) {
  ParallelConfig config;
  config.tp = tp;
  config.dp = dp;
  return Mesh(config);
}

Tensor PieceValues(const LocalPiece& piece, const std::vector<double>& values) {
  Tensor local = Tensor::Empty(Context{}, DType::kF64, piece.local_shape);
  for (size_t i = 0; i < piece.global_index.size(); ++i) {
    // Padding stays poison: it must not be looked at.
    if (piece.global_index[i] >= 0) local.data<double>()[i] = values[piece.global_index[i]];
  }
  return local;
}

// Merged over the ranks, pieces say what the whole tensor says.
TEST(ComparePieceTest, MergedPiecesEqualTheWhole) {
  const Mesh mesh = MeshOf(2, 3);
  const Shape shape = {48, 50};
  const std::vector<std::vector<AxisPlacement>> layouts = {
      {Sharded("tp", {ShardStep::Block(0)}), Sharded("dp", {ShardStep::Block(0)})},
      {Sharded("tp", {ShardStep::Block(1)}), Sharded("dp", {ShardStep::PaddedBlock(1)})},
      {Sharded("tp", {ShardStep::ZigZag(0)}), Sharded("dp", {ShardStep::Segments(0, 2)})},
      {Sharded("tp", {ShardStep::PaddedBlock(1)}),
       Sharded("dp", {ShardStep::Flatten(), ShardStep::Range({0, 5, 1100, 1300})})}};
  for (uint64_t rarity : {20, 2000, 1000000}) {
    const Pair pair = RandomPair(rarity, 2400, rarity);
    const Tensor global = Tensor::FromVector(Context{}, shape, pair.reference);
    const Difference whole = Naive(pair.actual, pair.reference);
    for (const auto& placements : layouts) {
      Difference merged;
      for (int rank = mesh.world_size(); rank-- > 0;) {
        const LocalPiece piece = PieceOf({"x", shape, placements}, mesh, rank);
        merged.Merge(ComparePiece(PieceValues(piece, pair.actual), piece, global));
      }
      ExpectSame(merged, whole);
    }
  }
}

TEST(ComparePieceTest, WholePieceIsTheTensor) {
  const Pair pair = RandomPair(1, 2400, 100);
  const Tensor global = Tensor::FromVector(Context{}, {48, 50}, pair.reference);
  const LocalPiece piece = PieceOf({"x", {48, 50}, {}}, MeshOf(1, 1), 0);
  EXPECT_TRUE(piece.whole);
  ExpectSame(ComparePiece(PieceValues(piece, pair.actual), piece, global),
             Naive(pair.actual, pair.reference));
}

TEST(ComparePieceTest, PieceOfOnePaddingElementHasNothingToCompare) {
  const LocalPiece piece =
      PieceOf({"x", {1}, {Sharded("tp", {ShardStep::PaddedBlock(0)})}}, MeshOf(2, 1), 1);
  const Difference difference = ComparePiece(VectorOf({kNaN}), piece, VectorOf({3}));
  EXPECT_EQ(difference.count, 0);
  EXPECT_EQ(difference.max_abs_reference, 0);
  EXPECT_EQ(difference.Deviation(), 0);
}

TEST(ComparePieceTest, NarrowStridedPieceAgainstWideReference) {
  const Tensor global = Tensor::FromVector<double>(Context{}, {4, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
  const LocalPiece piece =
      PieceOf({"x", {4, 2}, {Sharded("tp", {ShardStep::Block(0)})}}, MeshOf(2, 1), 1);
  const Tensor local =
      Tensor::FromVector<float>(Context{}, {2, 2}, {4, 6, 5.25, 7}).Transpose(0, 1);
  const Difference difference = ComparePiece(local, piece, global);
  EXPECT_EQ(difference.index, 5);
  EXPECT_EQ(difference.actual, 5.25);
  EXPECT_EQ(difference.reference, 5);
  EXPECT_EQ(difference.count, 4);
}

TEST(ComparePieceTest, PieceThatDoesNotFitIsRefused) {
  const Tensor global = VectorOf({1, 2, 3, 4});
  const LocalPiece piece =
      PieceOf({"x", {8}, {Sharded("tp", {ShardStep::Block(0)})}}, MeshOf(2, 1), 1);
  EXPECT_THROW(ComparePiece(VectorOf({1, 2}), piece, global), InvalidArgument);
  EXPECT_THROW(ComparePiece(VectorOf({1, 2, 3, 4}), piece, global), Internal);
  const LocalPiece scattered =
      PieceOf({"x", {8}, {Sharded("tp", {ShardStep::ZigZag(0)})}}, MeshOf(2, 1), 0);
  EXPECT_THROW(ComparePiece(VectorOf({1, 2, 3, 4}), scattered, global), Internal);
}

TEST(MatchesTest, BitwiseSeesTheSignOfZeroAndNaNPayloads) {
  const auto ok = [](double a, double b) {
    return Matches(VectorOf({1, a}), VectorOf({1, b}), Strength::Bitwise()).ok;
  };
  EXPECT_TRUE(ok(0.1, 0.1));
  EXPECT_TRUE(ok(kNaN, kNaN));
  EXPECT_FALSE(ok(0.0, -0.0));
  EXPECT_FALSE(ok(kNaN, -kNaN));
  EXPECT_FALSE(ok(1, std::nextafter(1, 2)));
}

TEST(MatchesTest, UlpsHoldOnBothSides) {
  double x = 1;
  for (int n = 0; n < 3; ++n) x = std::nextafter(x, 2);
  EXPECT_TRUE(Matches(VectorOf({x}), VectorOf({1}), Strength::WithinUlps(3)).ok);
  EXPECT_FALSE(Matches(VectorOf({x}), VectorOf({1}), Strength::WithinUlps(2)).ok);
  EXPECT_FALSE(Matches(VectorOf({kNaN}), VectorOf({1}), Strength::WithinUlps(1 << 30)).ok);
  EXPECT_TRUE(Matches(VectorOf({kNaN}), VectorOf({-kNaN}), Strength::WithinUlps(0)).ok);
}

TEST(MatchesTest, BoundIsTheDeviations) {
  const Strength strength = Strength::Within(1e-3, "eps");
  EXPECT_TRUE(Matches(VectorOf({1000, 1}), VectorOf({1000, 0}), strength).ok);
  EXPECT_FALSE(Matches(VectorOf({1000, 1.01}), VectorOf({1000, 0}), strength).ok);
  EXPECT_FALSE(Matches(VectorOf({1000, kNaN}), VectorOf({1000, 0}), strength).ok);
}

TEST(MatchesTest, MessageHasStrengthIndexAndBothValues) {
  const Tensor a = Tensor::FromVector<double>(Context{}, {2, 2}, {1, 2, 3.5, 4});
  const Tensor r = Tensor::FromVector<double>(Context{}, {2, 2}, {1, 2, 3.25, 4});
  for (const Strength& strength :
       {Strength::Bitwise(), Strength::WithinUlps(4), Strength::Within(1e-11, "noise")}) {
    EXPECT_THAT(Matches(a, r, strength).message,
                AllOf(HasSubstr(strength.ToString()), HasSubstr("f64[2, 2] at [1, 0]"),
                      HasSubstr("3.5"), HasSubstr("3.25")));
    EXPECT_EQ(Matches(a, a, strength).message, "");
  }
  Tensor half = Tensor::Zeros(Context{}, DType::kF16, {2});
  Tensor other = half.Clone(Context{});
  other.Slice(0, 1, 2).FillPoison();
  EXPECT_THAT(Matches(other, half, Strength::Bitwise()).message, HasSubstr("0xffff"));
}

TEST(MatchesTest, ShapesAndDtypesMustAgree) {
  const Tensor f32 = Tensor::Zeros(Context{}, DType::kF32, {2});
  EXPECT_THROW(Matches(f32, VectorOf({0, 0}), Strength::Bitwise()), InvalidArgument);
  EXPECT_THROW(Matches(f32, VectorOf({0, 0}), Strength::WithinUlps(1)), InvalidArgument);
  EXPECT_TRUE(Matches(f32, VectorOf({0, 0}), Strength::Within(0, "none")).ok);
  EXPECT_THROW(Matches(VectorOf({0}), VectorOf({0, 0}), Strength::Within(0, "none")),
               InvalidArgument);
  EXPECT_THROW(BitEqual(f32, VectorOf({0, 0})), InvalidArgument);
}

TEST(BitEqualTest, LooksThroughStrides) {
  const Tensor x = Tensor::FromVector<double>(Context{}, {2, 2}, {1, 2, 3, 4});
  const Tensor y = Tensor::FromVector<double>(Context{}, {2, 2}, {1, 3, 2, 4});
  EXPECT_TRUE(BitEqual(x, y.Transpose(0, 1)));
  EXPECT_FALSE(BitEqual(x, y));
  EXPECT_TRUE(BitEqual(VectorOf({}), VectorOf({})));
}

template <class T>
class UlpsTest : public ::testing::Test {};
using Types = ::testing::Types<double, float>;
TYPED_TEST_SUITE(UlpsTest, Types);

TYPED_TEST(UlpsTest, CountsStepsOfNextafter) {
  using T = TypeParam;
  const T infinity = std::numeric_limits<T>::infinity();
  for (T start : {T(1), T(-1), T(0), std::numeric_limits<T>::denorm_min(), T(-3e-30), T(7e12)}) {
    T x = start;
    for (int64_t n = 0; n < 10; ++n) {
      EXPECT_EQ(UlpsApart(start, x), n);
      EXPECT_EQ(UlpsApart(x, start), n);
      x = std::nextafter(x, infinity);
    }
  }
}

TYPED_TEST(UlpsTest, SpecialValues) {
  using T = TypeParam;
  constexpr int64_t kFar = std::numeric_limits<int64_t>::max();
  const T nan = std::numeric_limits<T>::quiet_NaN();
  const T infinity = std::numeric_limits<T>::infinity();
  const T largest = std::numeric_limits<T>::max();
  EXPECT_EQ(UlpsApart(T(0), T(-0.0)), 0);
  EXPECT_EQ(UlpsApart(nan, -nan), 0);
  EXPECT_EQ(UlpsApart(nan, T(1)), kFar);
  EXPECT_EQ(UlpsApart(T(1), nan), kFar);
  EXPECT_EQ(UlpsApart(infinity, infinity), 0);
  EXPECT_EQ(UlpsApart(infinity, largest), kFar);
  EXPECT_GT(UlpsApart(largest, -largest), int64_t{1} << 31);
}

template <class T>
void HalvesCountPatterns() {
  const auto of = [](int bits) { return std::bit_cast<T>(static_cast<uint16_t>(bits)); };
  EXPECT_EQ(UlpsApart(of(0x0000), of(0x8000)), 0);
  EXPECT_EQ(UlpsApart(of(0x0001), of(0x8002)), 3);
  EXPECT_EQ(UlpsApart(of(0x3C00), of(0x3C07)), 7);
  EXPECT_EQ(UlpsApart(of(0xBC00), of(0xBC07)), 7);
  EXPECT_EQ(UlpsApart(T(kNaN), T(1.0)), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(UlpsApart(T(kInf), T(1.0)), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(UlpsApart(T(kNaN), T(-kNaN)), 0);
}

TEST(HalfUlpsTest, BF16CountsPatterns) { HalvesCountPatterns<BF16>(); }
TEST(HalfUlpsTest, F16CountsPatterns) { HalvesCountPatterns<F16>(); }

}  // namespace
}  // namespace plumbline
