#include "kernels/dropout.h"

#include <cmath>
#include <vector>

#include "base/rng.h"
#include "tests/kernels/operator_test_util.h"

namespace plumbline {
namespace {

using testing::BitEquals;
using testing::kContext;
using testing::Random;
using testing::Scattered;

constexpr int64_t kColumns = 9;  // of the global tensor

DropoutKey Key() {
  DropoutKey key;
  key.probability = 0.3;
  key.seed = 17;
  key.step = 2;
  key.site_hash = HashOfName("decoder.layers.3.mlp.dropout");
  key.samples = {4, 11};
  return key;
}

std::vector<int64_t> Range(int64_t begin, int64_t end) {
  std::vector<int64_t> rows;
  for (int64_t row = begin; row < end; ++row) rows.push_back(row);
  return rows;
}

template <class T>
class DropoutTest : public ::testing::Test {};
TYPED_TEST_SUITE(DropoutTest, testing::ScalarTypes, testing::ScalarNames);

TYPED_TEST(DropoutTest, KeepsWhatTheWordOfTheElementKeeps) {
  using T = TypeParam;
  const Tensor x = Random<T>({70, 2, kColumns}, "x");
  const Tensor y = Dropout(kContext, x, Key(), Range(0, 70), 0, kColumns);
  const T factor = T(1) / (T(1) - T(0.3));
  int64_t kept = 0;
  for (int64_t s = 0; s < 70; ++s) {
    for (int64_t b = 0; b < 2; ++b) {
      const RandomStream stream = DropoutStream(17, 2, Key().site_hash, Key().samples[b]);
      for (int64_t h = 0; h < kColumns; ++h) {
        const bool keep = stream.Bits(s * kColumns + h) < KeepThreshold(0.3);
        kept += keep ? 1 : 0;
        EXPECT_EQ(y.at<T>({s, b, h}), keep ? x.at<T>({s, b, h}) * factor : T(0));
      }
    }
  }
  // 1260 draws at 0.7: five standard deviations are 81.
  EXPECT_NEAR(static_cast<double>(kept), 882, 81);
  EXPECT_THAT(Dropout(kContext, Scattered<T>(x), Key(), Range(0, 70), 0, kColumns), BitEquals(y));
}

TYPED_TEST(DropoutTest, AnyRectangleHasTheMaskOfTheWhole) {
  using T = TypeParam;
  const Tensor x = Random<T>({12, 2, kColumns}, "x");
  const Tensor whole = Dropout(kContext, x, Key(), Range(0, 12), 0, kColumns);
  for (int64_t row : {0, 3, 11}) {
    for (int64_t column : {0, 4, 8}) {
      const Tensor part = x.Slice(0, row, 12).Slice(2, column, kColumns);
      EXPECT_THAT(Dropout(kContext, part, Key(), Range(row, 12), column, kColumns),
                  BitEquals(whole.Slice(0, row, 12).Slice(2, column, kColumns).Clone(kContext)));
    }
  }
  DropoutKey second = Key();
  second.samples = {11};
  EXPECT_THAT(Dropout(kContext, x.Slice(1, 1, 2), second, Range(0, 12), 0, kColumns),
              BitEquals(whole.Slice(1, 1, 2).Clone(kContext)));
  // Local numbering of rows or columns is another mask.
  EXPECT_FALSE(BitEqual(Dropout(kContext, x.Slice(0, 3, 12), Key(), Range(0, 9), 0, kColumns),
                        whole.Slice(0, 3, 12).Clone(kContext)));
  EXPECT_FALSE(BitEqual(Dropout(kContext, x.Slice(2, 4, 9), Key(), Range(0, 12), 0, kColumns),
                        whole.Slice(2, 4, 9).Clone(kContext)));
}

TYPED_TEST(DropoutTest, EveryPartOfTheKeyCounts) {
  using T = TypeParam;
  const Tensor x = Random<T>({12, 2, kColumns}, "x");
  const auto run = [&](const DropoutKey& key) {
    return Dropout(kContext, x, key, Range(0, 12), 0, kColumns);
  };
  const Tensor y = run(Key());
  std::vector<DropoutKey> others(5, Key());
  others[0].seed = 18;
  others[1].step = 3;
  others[2].site_hash = HashOfName("decoder.layers.2.mlp.dropout");
  others[3].samples = {11, 4};
  others[4].probability = 0.5;
  for (const DropoutKey& key : others) EXPECT_FALSE(BitEqual(run(key), y));
  EXPECT_THAT(run(Key()), BitEquals(y));
}

TYPED_TEST(DropoutTest, ProbabilityZeroIsACopy) {
  using T = TypeParam;
  const Tensor x = Random<T>({3, 2, kColumns}, "x");
  const Tensor y = Dropout(kContext, x, DropoutKey(), {}, 0, kColumns);
  EXPECT_THAT(y, BitEquals(x));
  EXPECT_FALSE(y.SharesStorage(x));
  EXPECT_EQ(Dropout(kContext, x.Slice(0, 0, 0), Key(), {}, 0, kColumns).elements(), 0);
}

TYPED_TEST(DropoutTest, KeptNanStaysAndDroppedNanGoes) {
  using T = TypeParam;
  Tensor x = Tensor::Empty(kContext, kDTypeOf<T>, {12, 2, kColumns});  // poison is NaN
  const Tensor y = Dropout(kContext, x, Key(), Range(0, 12), 0, kColumns);
  const Tensor mask =
      Dropout(kContext, Random<T>({12, 2, kColumns}, "x"), Key(), Range(0, 12), 0, kColumns);
  for (int64_t i = 0; i < y.elements(); ++i) {
    EXPECT_EQ(std::isnan(y.data<T>()[i]), mask.data<T>()[i] != 0);
  }
}

TEST(DropoutErrorsTest, ArgumentsMustFit) {
  const Tensor x = Random<double>({3, 2, kColumns}, "x");
  const auto run = [&](const DropoutKey& key, int64_t rows, int64_t first_column) {
    return Dropout(kContext, x, key, Range(0, rows), first_column, kColumns);
  };
  EXPECT_THROW(run(Key(), 2, 0), InvalidArgument);
  EXPECT_THROW(run(Key(), 3, 1), InvalidArgument);
  DropoutKey key = Key();
  key.samples = {1};
  EXPECT_THROW(run(key, 3, 0), InvalidArgument);
  for (double probability : {1.0, -0.1, std::nan("")}) {
    key = Key();
    key.probability = probability;
    EXPECT_THROW(run(key, 3, 0), InvalidArgument) << probability;
  }
}

}  // namespace
}  // namespace plumbline
