#include "kernels/matmul.h"

#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "tests/kernels/operator_test_util.h"

namespace plumbline {
namespace {

using testing::BitEquals;
using testing::kContext;
using testing::Random;
using testing::Scattered;

// The contract, literally: one chain of fused multiply-adds from 0 in ascending order.
template <class T>
Tensor Chain(const Tensor& a, const Tensor& b) {
  const int64_t m = a.dim(0), k = a.dim(1), n = b.dim(1);
  const std::vector<T> x = a.ToVector<T>(), y = b.ToVector<T>();
  std::vector<T> c;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      T sum = 0;
      for (int64_t p = 0; p < k; ++p) sum = std::fma(x[i * k + p], y[p * n + j], sum);
      c.push_back(sum);
    }
  }
  return Tensor::FromVector<T>(kContext, {m, n}, c);
}

template <class T>
struct Product {
  explicit Product(int64_t m, int64_t n, int64_t k)
      : x(Random<T>({m, k}, "x")), w(Random<T>({n, k}, "w")), dy(Random<T>({m, n}, "dy")) {}
  Tensor x, w, dy;
};

template <class T>
class MatmulTest : public ::testing::Test {};
TYPED_TEST_SUITE(MatmulTest, testing::ScalarTypes, testing::ScalarNames);

// Around the register block (6 x 16 or 6 x 8), the depth and width of the cache blocks, and the
// sizes at which operands begin to be packed.
const std::vector<std::tuple<int64_t, int64_t, int64_t>> kSizes = {
    {0, 3, 4},     {3, 0, 4},    {3, 4, 0},    {1, 1, 1},     {1, 16, 5},
    {6, 16, 8},    {7, 17, 9},   {5, 15, 33},  {12, 8, 64},   {64, 48, 64},
    {13, 33, 257}, {97, 100, 8}, {6, 530, 70}, {200, 40, 300}};

TYPED_TEST(MatmulTest, EachProductHasTheBitsOfOneAscendingChain) {
  for (const auto& [m, n, k] : kSizes) {
    const Product<TypeParam> p(m, n, k);
    SCOPED_TRACE(fmt::format("m {} n {} k {}", m, n, k));
    EXPECT_THAT(MatmulNT(kContext, p.x, p.w),
                BitEquals(Chain<TypeParam>(p.x, p.w.Transpose(0, 1))));
    EXPECT_THAT(MatmulNN(kContext, p.dy, p.w), BitEquals(Chain<TypeParam>(p.dy, p.w)));
    EXPECT_THAT(MatmulTN(kContext, p.dy, p.x),
                BitEquals(Chain<TypeParam>(p.dy.Transpose(0, 1), p.x)));
  }
}

TYPED_TEST(MatmulTest, StridesDoNotMatter) {
  for (const auto& [m, n, k] : kSizes) {
    const Product<TypeParam> p(m, n, k);
    SCOPED_TRACE(fmt::format("m {} n {} k {}", m, n, k));
    const Tensor x = Scattered<TypeParam>(p.x), w = Scattered<TypeParam>(p.w),
                 dy = Scattered<TypeParam>(p.dy);
    EXPECT_THAT(MatmulNT(kContext, x, w), BitEquals(MatmulNT(kContext, p.x, p.w)));
    EXPECT_THAT(MatmulNN(kContext, dy, w), BitEquals(MatmulNN(kContext, p.dy, p.w)));
    EXPECT_THAT(MatmulTN(kContext, dy, x), BitEquals(MatmulTN(kContext, p.dy, p.x)));
  }
}

TYPED_TEST(MatmulTest, LeadingDimensionsAreRows) {
  const Tensor x = Random<TypeParam>({5, 3, 20}, "x");
  const Tensor w = Random<TypeParam>({9, 20}, "w");
  const Tensor expected = MatmulNT(kContext, x.View({15, 20}), w);
  EXPECT_THAT(MatmulNT(kContext, x, w), BitEquals(expected.View({5, 3, 9})));
  EXPECT_THAT(MatmulNT(kContext, Scattered<TypeParam>(x), w), BitEquals(expected.View({5, 3, 9})));
  // A slice of the leading axis and of the middle one, whose rows have no common stride.
  EXPECT_THAT(MatmulNT(kContext, x.Slice(1, 1, 3), w),
              BitEquals(expected.View({5, 3, 9}).Slice(1, 1, 3).Clone(kContext)));
  const Tensor dy = Random<TypeParam>({5, 3, 9}, "dy");
  EXPECT_THAT(MatmulTN(kContext, Scattered<TypeParam>(dy), x),
              BitEquals(MatmulTN(kContext, dy.View({15, 9}), x.View({15, 20}))));
  EXPECT_THAT(MatmulNT(kContext, x.Select(0, 2).Select(0, 1), w),
              BitEquals(expected.Select(0, 7).Clone(kContext)));
}

TYPED_TEST(MatmulTest, SplittingColumnsOrRowsNeverChangesABit) {
  const Product<TypeParam> p(50, 120, 300);
  const Tensor whole = MatmulNT(kContext, p.x, p.w);
  const Tensor whole_dx = MatmulNN(kContext, p.dy, p.w);
  const Tensor whole_dw = MatmulTN(kContext, p.dy, p.x);
  for (int64_t parts : {2, 3, 4, 5, 8, 10}) {
    for (int64_t part = 0; part < parts; ++part) {
      SCOPED_TRACE(fmt::format("part {} of {}", part, parts));
      const int64_t first = 120 / parts * part, end = first + 120 / parts;
      EXPECT_THAT(MatmulNT(kContext, p.x, p.w.Slice(0, first, end)),
                  BitEquals(whole.Slice(1, first, end).Clone(kContext)));
      EXPECT_THAT(MatmulTN(kContext, p.dy.Slice(1, first, end), p.x),
                  BitEquals(whole_dw.Slice(0, first, end).Clone(kContext)));
      const int64_t first_row = 50 * part / parts, end_row = 50 * (part + 1) / parts;
      EXPECT_THAT(MatmulNN(kContext, p.dy.Slice(0, first_row, end_row), p.w),
                  BitEquals(whole_dx.Slice(0, first_row, end_row).Clone(kContext)));
      const int64_t first_k = 300 / parts * part, end_k = first_k + 300 / parts;
      EXPECT_THAT(MatmulNN(kContext, p.dy, p.w.Slice(1, first_k, end_k)),
                  BitEquals(whole_dx.Slice(1, first_k, end_k).Clone(kContext)));
    }
  }
}

TYPED_TEST(MatmulTest, SplittingTheSumDoesChangeBitsAndStaysWithinTheBound) {
  const Product<TypeParam> p(20, 30, 300);
  const Tensor whole = MatmulNT(kContext, p.x, p.w);
  const Tensor a = MatmulNT(kContext, p.x.Slice(1, 0, 150), p.w.Slice(1, 0, 150));
  const Tensor b = MatmulNT(kContext, p.x.Slice(1, 150, 300), p.w.Slice(1, 150, 300));
  Tensor sum = a.Clone(kContext);
  for (int64_t i = 0; i < sum.elements(); ++i) sum.data<TypeParam>()[i] += b.data<TypeParam>()[i];
  EXPECT_FALSE(BitEqual(sum, whole));
  EXPECT_TRUE(Compare(sum, whole).Within(testing::Bound<TypeParam>(300)));
  EXPECT_FALSE(Compare(a, whole).Within(testing::Bound<TypeParam>(300)));
}

// The blocks of k, each a chain, added up in the order that is asked for.
TYPED_TEST(MatmulTest, SumOrderOfTheContextIsFollowed) {
  using T = TypeParam;
  constexpr int64_t kK = 23;
  const Product<T> p(7, 19, kK);
  for (const SumOrder order : {SumOrder{1, false}, {1, true}, {3, false}, {3, true}, {99, true}}) {
    SCOPED_TRACE(fmt::format("{} splits, descending {}", order.splits, order.descending));
    Context context;
    context.sum_order = order;
    const int64_t splits = std::min<int64_t>(order.splits, kK);
    std::vector<T> expected(7 * 19);
    for (int64_t i = 0; i < splits; ++i) {
      const int64_t block = order.descending ? splits - 1 - i : i;
      const int64_t begin = kK * block / splits, end = kK * (block + 1) / splits;
      const std::vector<T> part =
          MatmulNT(kContext, p.x.Slice(-1, begin, end), p.w.Slice(-1, begin, end))
              .template ToVector<T>();
      for (size_t j = 0; j < part.size(); ++j) {
        expected[j] = i == 0 ? part[j] : expected[j] + part[j];
      }
    }
    const Tensor y = MatmulNT(context, p.x, p.w);
    EXPECT_THAT(y, BitEquals(Tensor::FromVector<T>(kContext, y.shape(), expected)));
    // The other two products split their own sums.
    const Tensor wt = p.w.Transpose(0, 1), xt = p.x.Transpose(0, 1);
    EXPECT_THAT(MatmulNN(context, p.x, wt.Clone(kContext)), BitEquals(y));
    EXPECT_THAT(MatmulTN(context, xt.Clone(kContext), wt.Clone(kContext)), BitEquals(y));
  }
}

TYPED_TEST(MatmulTest, NanReachesItsRowOrColumnOnly) {
  const Product<TypeParam> p(7, 19, 10);
  const Tensor y = MatmulNT(kContext, testing::WithNan<TypeParam>(p.x, 3 * 10 + 4), p.w);
  std::vector<int64_t> row;
  for (int64_t j = 0; j < 19; ++j) row.push_back(3 * 19 + j);
  EXPECT_EQ(testing::NanElements<TypeParam>(y), row);
  const Tensor z = MatmulNT(kContext, p.x, testing::WithNan<TypeParam>(p.w, 18 * 10));
  std::vector<int64_t> column;
  for (int64_t i = 0; i < 7; ++i) column.push_back(i * 19 + 18);
  EXPECT_EQ(testing::NanElements<TypeParam>(z), column);
}

TEST(MatmulDTypeTest, SinglePrecisionIsNearDouble) {
  const Product<float> p(30, 40, 300);
  const auto widened = [](const Tensor& x) {
    const std::vector<float> values = x.ToVector<float>();
    return Tensor::FromVector<double>(kContext, x.shape(), {values.begin(), values.end()});
  };
  const Tensor single = MatmulNT(kContext, p.x, p.w);
  const Tensor wide = MatmulNT(kContext, widened(p.x), widened(p.w));
  EXPECT_TRUE(Compare(single, wide).Within(testing::Bound<float>(300)));
  EXPECT_FALSE(Compare(single, wide).Within(testing::Bound<double>(300)));
}

TEST(MatmulErrorsTest, SummedExtentsAndDTypesMustAgree) {
  const Tensor x = Random<double>({4, 5}, "x");
  EXPECT_THROW(MatmulNT(kContext, x, Random<double>({3, 6}, "w")), InvalidArgument);
  EXPECT_THROW(MatmulNN(kContext, x, Random<double>({4, 6}, "w")), InvalidArgument);
  EXPECT_THROW(MatmulTN(kContext, x, Random<double>({5, 6}, "w")), InvalidArgument);
  EXPECT_THROW(MatmulNT(kContext, x, Random<float>({3, 5}, "w")), InvalidArgument);
  EXPECT_THROW(MatmulNT(kContext, x, Random<double>({5}, "w")), InvalidArgument);
}

}  // namespace
}  // namespace plumbline
