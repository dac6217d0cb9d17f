#include "kernels/embedding.h"

#include <vector>

#include "kernels/elementwise.h"
#include "tests/kernels/operator_test_util.h"

namespace plumbline {
namespace {

using testing::BitEquals;
using testing::kContext;
using testing::Random;
using testing::Scattered;

// Every row of 10 but 4 is used; 7 is used three times.
Tensor Ids() {
  return Tensor::FromVector<int64_t>(kContext, {2, 6}, {7, 0, 3, 7, 9, 1, 5, 2, 7, 8, 6, 0});
}

template <class T>
class EmbeddingTest : public ::testing::Test {};
TYPED_TEST_SUITE(EmbeddingTest, testing::ScalarTypes, testing::ScalarNames);

TYPED_TEST(EmbeddingTest, ForwardCopiesTheRowOfEachId) {
  using T = TypeParam;
  const Tensor table = Random<T>({10, 5}, "table");
  const Tensor y = EmbeddingForward(kContext, Ids(), table, 0);
  ASSERT_EQ(y.shape(), (Shape{6, 2, 5}));
  for (int64_t s = 0; s < 6; ++s) {
    for (int64_t b = 0; b < 2; ++b) {
      EXPECT_THAT(y.Select(0, s).Select(0, b).Clone(kContext),
                  BitEquals(table.Select(0, Ids().at<int64_t>({b, s})).Clone(kContext)));
    }
  }
  EXPECT_THAT(EmbeddingForward(kContext, Scattered<int64_t>(Ids()), Scattered<T>(table), 0),
              BitEquals(y));
}

TYPED_TEST(EmbeddingTest, ShardsOfTheTableAddUpToTheWhole) {
  using T = TypeParam;
  const Tensor table = Random<T>({10, 5}, "table");
  const Tensor dy = Random<T>({6, 2, 5}, "dy");
  const Tensor whole = EmbeddingForward(kContext, Ids(), table, 0);
  const Tensor whole_gradient = EmbeddingBackward(kContext, dy, Ids(), 10, 0);
  Tensor sum = Tensor::Zeros(kContext, kDTypeOf<T>, whole.shape());
  Tensor shifted = sum.Clone(kContext);
  for (const auto& [begin, end] :
       std::vector<std::pair<int64_t, int64_t>>{{0, 4}, {4, 4}, {4, 10}}) {
    AddInto(kContext, sum, EmbeddingForward(kContext, Ids(), table.Slice(0, begin, end), begin));
    AddInto(kContext, shifted,
            EmbeddingForward(kContext, Ids(), table.Slice(0, begin, end), begin + 1));
    EXPECT_THAT(EmbeddingBackward(kContext, dy, Ids(), end - begin, begin),
                BitEquals(whole_gradient.Slice(0, begin, end).Clone(kContext)));
  }
  EXPECT_THAT(sum, BitEquals(whole));
  EXPECT_FALSE(BitEqual(shifted, whole));
}

TYPED_TEST(EmbeddingTest, BackwardAddsRowsInAscendingOrderOfPositionThenSample) {
  using T = TypeParam;
  const Tensor dy = Random<T>({6, 2, 5}, "dy");
  Tensor expected = Tensor::Zeros(kContext, kDTypeOf<T>, {10, 5});
  for (int64_t s = 0; s < 6; ++s) {
    for (int64_t b = 0; b < 2; ++b) {
      for (int64_t i = 0; i < 5; ++i) {
        expected.at<T>({Ids().at<int64_t>({b, s}), i}) += dy.at<T>({s, b, i});
      }
    }
  }
  EXPECT_THAT(EmbeddingBackward(kContext, dy, Ids(), 10, 0), BitEquals(expected));
  EXPECT_THAT(EmbeddingBackward(kContext, Scattered<T>(dy), Ids(), 10, 0), BitEquals(expected));
}

TYPED_TEST(EmbeddingTest, NoTokensAndNoRows) {
  using T = TypeParam;
  const Tensor none = Ids().Slice(1, 0, 0);
  EXPECT_EQ(EmbeddingForward(kContext, none, Random<T>({10, 5}, "table"), 0).shape(),
            (Shape{0, 2, 5}));
  EXPECT_THAT(EmbeddingBackward(kContext, Random<T>({0, 2, 5}, "dy"), none, 3, 0),
              BitEquals(Tensor::Zeros(kContext, kDTypeOf<T>, {3, 5})));
  EXPECT_THAT(EmbeddingForward(kContext, Ids(), Random<T>({0, 5}, "table"), 4),
              BitEquals(Tensor::Zeros(kContext, kDTypeOf<T>, {6, 2, 5})));
}

TYPED_TEST(EmbeddingTest, NanStaysWithItsRow) {
  using T = TypeParam;
  const Tensor table = testing::WithNan<T>(Random<T>({10, 1}, "table"), 9);
  EXPECT_EQ(testing::NanElements<T>(EmbeddingForward(kContext, Ids(), table, 0)),
            std::vector<int64_t>{8});
}

TEST(EmbeddingErrorsTest, ShapesAndDTypesMustFit) {
  EXPECT_THROW(
      EmbeddingForward(kContext, Random<double>({2, 6}, "ids"), Random<double>({10, 5}, "t"), 0),
      InvalidArgument);
  EXPECT_THROW(EmbeddingForward(kContext, Ids(), Random<double>({10}, "t"), 0), InvalidArgument);
  EXPECT_THROW(EmbeddingBackward(kContext, Random<double>({2, 6, 5}, "dy"), Ids(), 10, 0),
               InvalidArgument);
}

}  // namespace
}  // namespace plumbline
