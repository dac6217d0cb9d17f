#include "kernels/elementwise.h"

#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/operator_test_util.h"

namespace plumbline {
namespace {

using testing::BitEquals;
using testing::kContext;
using testing::Random;
using testing::Scattered;

template <class T>
class ElementwiseTest : public ::testing::Test {};
TYPED_TEST_SUITE(ElementwiseTest, testing::ScalarTypes, testing::ScalarNames);

const std::vector<Shape> kShapes = {{}, {0}, {1}, {7}, {3, 5}, {2, 0, 4}, {2, 3, 1}, {4, 3, 9}};

// f over the elements of a and b, one at a time.
template <class T, class F>
Tensor Zip(const Tensor& a, const Tensor& b, F f) {
  std::vector<T> x = a.ToVector<T>();
  const std::vector<T> y = b.ToVector<T>();
  for (size_t i = 0; i < x.size(); ++i) x[i] = f(x[i], y[i]);
  return Tensor::FromVector<T>(kContext, a.shape(), x);
}

template <class T>
T Value(const Tensor& scalar) {
  EXPECT_EQ(scalar.dims(), 0);
  return *scalar.data<T>();
}

TYPED_TEST(ElementwiseTest, AddSubtractAndAddIntoForAnyStrides) {
  using T = TypeParam;
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(ToString(shape));
    const Tensor a = Random<T>(shape, "a"), b = Random<T>(shape, "b");
    const Tensor sum = Zip<T>(a, b, [](T x, T y) { return x + y; });
    const Tensor difference = Zip<T>(a, b, [](T x, T y) { return x - y; });
    EXPECT_THAT(Add(kContext, a, b), BitEquals(sum));
    EXPECT_THAT(Add(kContext, Scattered<T>(a), b), BitEquals(sum));
    EXPECT_THAT(Subtract(kContext, a, Scattered<T>(b)), BitEquals(difference));
    Tensor target = Scattered<T>(a);
    AddInto(kContext, target, b);
    EXPECT_THAT(target.Clone(kContext), BitEquals(sum));
    target = a.Clone(kContext);
    AddInto(kContext, target, Scattered<T>(b));
    EXPECT_THAT(target, BitEquals(sum));
  }
}

TYPED_TEST(ElementwiseTest, AddIntoASliceLeavesTheRest) {
  using T = TypeParam;
  const Tensor before = Random<T>({4, 6}, "a");
  Tensor whole = before.Clone(kContext);
  Tensor slice = whole.Slice(1, 2, 4);
  const Tensor b = Random<T>({4, 2}, "b");
  AddInto(kContext, slice, b);
  EXPECT_THAT(whole.Slice(1, 0, 2).Clone(kContext),
              BitEquals(before.Slice(1, 0, 2).Clone(kContext)));
  EXPECT_THAT(whole.Slice(1, 4, 6).Clone(kContext),
              BitEquals(before.Slice(1, 4, 6).Clone(kContext)));
  EXPECT_THAT(slice.Clone(kContext), BitEquals(Add(kContext, before.Slice(1, 2, 4), b)));
}

TYPED_TEST(ElementwiseTest, ABiasIsAddedToEachRowAndItsGradientIsTheAscendingSumOfRows) {
  using T = TypeParam;
  const Tensor x = Random<T>({5, 3, 7}, "x"), bias = Random<T>({7}, "bias");
  Tensor y = x.Clone(kContext);
  std::vector<T> sums(7, 0);
  for (int64_t row = 0; row < 15; ++row) {
    for (int64_t i = 0; i < 7; ++i) {
      y.data<T>()[row * 7 + i] += bias.data<T>()[i];
      sums[i] += x.data<T>()[row * 7 + i];
    }
  }
  EXPECT_THAT(AddBias(kContext, x, bias), BitEquals(y));
  EXPECT_THAT(AddBias(kContext, Scattered<T>(x), Scattered<T>(bias)), BitEquals(y));
  const Tensor expected = Tensor::FromVector<T>(kContext, {7}, sums);
  EXPECT_THAT(SumRows(kContext, x), BitEquals(expected));
  EXPECT_THAT(SumRows(kContext, Scattered<T>(x)), BitEquals(expected));
  EXPECT_THAT(SumRows(kContext, Random<T>({0, 3}, "none")),
              BitEquals(Tensor::Zeros(kContext, kDTypeOf<T>, {3})));
}

TYPED_TEST(ElementwiseTest, InPlaceFactorsAndDivisors) {
  using T = TypeParam;
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(ToString(shape));
    const Tensor x = Random<T>(shape, "x");
    const Tensor number = Tensor::FromVector<T>(kContext, {}, {static_cast<T>(1.7)});
    const auto check = [&](auto in_place, auto f) {
      for (Tensor y : {x.Clone(kContext), Scattered<T>(x)}) {
        in_place(y);
        EXPECT_THAT(y.Clone(kContext), BitEquals(Zip<T>(x, x, [&](T a, T) { return f(a); })));
      }
    };
    check([](Tensor& y) { ScaleInto(kContext, y, 0.1); },
          [](T a) { return a * static_cast<T>(0.1); });
    check([](Tensor& y) { DivideInto(kContext, y, int64_t{3}); }, [](T a) { return a / 3; });
    check([&](Tensor& y) { DivideInto(kContext, y, number); },
          [](T a) { return a / static_cast<T>(1.7); });
    check([&](Tensor& y) { MultiplyInto(kContext, y, number); },
          [](T a) { return a * static_cast<T>(1.7); });
  }
}

TYPED_TEST(ElementwiseTest, SumsAreAscendingChains) {
  using T = TypeParam;
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(ToString(shape));
    const Tensor x = Random<T>(shape, "x");
    T sum = 0, squares = 0;
    for (T value : x.ToVector<T>()) {
      sum += value;
      squares = std::fma(value, value, squares);
    }
    for (const Tensor& input : {x, Scattered<T>(x)}) {
      EXPECT_EQ(Value<T>(Sum(kContext, input)), sum);
      EXPECT_EQ(Value<T>(SumOfSquares(kContext, input)), squares);
    }
  }
  const Tensor x = Random<T>({1000}, "order");
  std::vector<T> backwards = x.ToVector<T>();
  std::reverse(backwards.begin(), backwards.end());
  EXPECT_NE(Value<T>(Sum(kContext, x)),
            Value<T>(Sum(kContext, Tensor::FromVector<T>(kContext, {1000}, backwards))));
}

TYPED_TEST(ElementwiseTest, TheClipCoefficientShrinksOnlyAndKeepsNan) {
  using T = TypeParam;
  const auto coefficient = [](T norm) {
    return Value<T>(ClipCoefficient(kContext, Tensor::FromVector<T>(kContext, {}, {norm}), 2.0));
  };
  EXPECT_EQ(coefficient(1), T(1));
  EXPECT_EQ(coefficient(8), T(2) / (T(8) + T(1e-6)));
  EXPECT_TRUE(std::isnan(coefficient(std::numeric_limits<T>::quiet_NaN())));
  EXPECT_EQ(coefficient(std::numeric_limits<T>::infinity()), T(0));
  EXPECT_EQ(Value<T>(SquareRoot(kContext, Tensor::FromVector<T>(kContext, {}, {T(2)}))),
            std::sqrt(T(2)));
}

TYPED_TEST(ElementwiseTest, CountsNanAndBothInfinitiesWhereverTheyAre) {
  using T = TypeParam;
  const T infinity = std::numeric_limits<T>::infinity();
  Tensor x = Random<T>({5, 7}, "x");
  EXPECT_EQ(CountNonFinite(x), 0);
  x.data<T>()[0] = infinity;
  x.data<T>()[17] = -infinity;
  x.data<T>()[34] = std::numeric_limits<T>::quiet_NaN();
  x.data<T>()[1] = std::numeric_limits<T>::max();
  x.data<T>()[2] = std::numeric_limits<T>::denorm_min();
  EXPECT_EQ(CountNonFinite(x), 3);
  EXPECT_EQ(CountNonFinite(Scattered<T>(x)), 3);
  EXPECT_EQ(CountNonFinite(Tensor::Empty(kContext, kDTypeOf<T>, {11})), 11);  // fresh is poison
}

TYPED_TEST(ElementwiseTest, NanStaysInItsElement) {
  using T = TypeParam;
  const Tensor x = testing::WithNan<T>(Random<T>({3, 4}, "x"), 5), y = Random<T>({3, 4}, "y");
  const std::vector<int64_t> place = {5};
  EXPECT_EQ(testing::NanElements<T>(Add(kContext, x, y)), place);
  EXPECT_EQ(testing::NanElements<T>(Subtract(kContext, y, x)), place);
  EXPECT_EQ(testing::NanElements<T>(AddBias(kContext, x, Random<T>({4}, "b"))), place);
  EXPECT_EQ(testing::NanElements<T>(SumRows(kContext, x)), std::vector<int64_t>{1});
  EXPECT_TRUE(std::isnan(Value<T>(Sum(kContext, x))));
  EXPECT_TRUE(std::isnan(Value<T>(SumOfSquares(kContext, x))));
}

TEST(CastTest, RoundsOnceAndBackIsExact) {
  const Tensor x = Random<double>({3, 5}, "x");
  const Tensor single = Cast(kContext, Scattered<double>(x), DType::kF32);
  for (int64_t i = 0; i < 15; ++i) {
    EXPECT_EQ(single.data<float>()[i], static_cast<float>(x.data<double>()[i]));
  }
  EXPECT_FALSE(BitEqual(Cast(kContext, single, DType::kF64), x));
  EXPECT_THAT(Cast(kContext, Cast(kContext, single, DType::kF64), DType::kF32), BitEquals(single));
  const Tensor same = Cast(kContext, x, DType::kF64);
  EXPECT_THAT(same, BitEquals(x));
  EXPECT_FALSE(same.SharesStorage(x));
  EXPECT_THROW(Cast(kContext, x, DType::kI64), InvalidArgument);
}

TEST(ElementwiseErrorsTest, ShapesAndDTypesMustAgree) {
  const Tensor x = Random<double>({2, 3}, "x");
  Tensor y = x.Clone(kContext);
  EXPECT_THROW(Add(kContext, x, Random<double>({3, 2}, "y")), InvalidArgument);
  EXPECT_THROW(Subtract(kContext, x, Random<float>({2, 3}, "y")), InvalidArgument);
  EXPECT_THROW(AddInto(kContext, y, Random<double>({2}, "y")), InvalidArgument);
  EXPECT_THROW(AddBias(kContext, x, Random<double>({2}, "b")), InvalidArgument);
  EXPECT_THROW(MultiplyInto(kContext, y, x), InvalidArgument);
  EXPECT_THROW(DivideInto(kContext, y, Random<float>({}, "f")), InvalidArgument);
  EXPECT_THROW(SquareRoot(kContext, x), InvalidArgument);
}

}  // namespace
}  // namespace plumbline
