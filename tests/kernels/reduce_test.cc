#include "kernels/reduce.h"

#include <vector>

#include "tests/kernels/operator_test_util.h"

namespace plumbline {
namespace {

using testing::BitEquals;
using testing::kContext;
using testing::Random;

template <class T>
class ReduceTest : public ::testing::Test {};
TYPED_TEST_SUITE(ReduceTest, testing::ScalarTypes, testing::ScalarNames);

template <class T>
std::vector<Tensor> Sources(int64_t count, int64_t elements) {
  std::vector<Tensor> sources;
  for (int64_t s = 0; s < count; ++s) {
    sources.push_back(Random<T>({elements}, fmt::format("source {}", s)));
  }
  return sources;
}

std::vector<const Tensor*> Pointers(const std::vector<Tensor>& sources) {
  std::vector<const Tensor*> result;
  for (const Tensor& source : sources) result.push_back(&source);
  return result;
}

// The definition, one element at a time.
template <class T>
Tensor Naive(ReduceOp op, const std::vector<Tensor>& sources) {
  Tensor result = sources[0].Clone(kContext);
  T* out = result.data<T>();
  for (int64_t i = 0; i < result.elements(); ++i) {
    for (size_t s = 1; s < sources.size(); ++s) {
      const T x = sources[s].data<T>()[i];
      if (op == ReduceOp::kSum || op == ReduceOp::kAvg) out[i] += x;
      if (op == ReduceOp::kMax && x > out[i]) out[i] = x;
      if (op == ReduceOp::kMin && x < out[i]) out[i] = x;
    }
    if (op == ReduceOp::kAvg) out[i] /= static_cast<T>(sources.size());
  }
  return result;
}

constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMax, ReduceOp::kMin};

TYPED_TEST(ReduceTest, HasTheBitsOfTheDefinitionForEverySizeAndGroup) {
  for (int64_t elements : {0, 1, 7, 511, 512, 513, 1024, 1025, 5000}) {
    for (int64_t count : {1, 2, 3, 8}) {
      const std::vector<Tensor> sources = Sources<TypeParam>(count, elements);
      for (ReduceOp op : kOps) {
        Tensor result = Tensor::Empty(kContext, kDTypeOf<TypeParam>, {elements});
        Reduce(op, Pointers(sources), result);
        EXPECT_THAT(result, BitEquals(Naive<TypeParam>(op, sources)))
            << Name(op) << " of " << count << " x " << elements;
      }
    }
  }
}

TYPED_TEST(ReduceTest, TheOrderOfTheSourcesIsTheOrderOfTheSum) {
  const std::vector<Tensor> sources = Sources<TypeParam>(8, 1000);
  const std::vector<Tensor> reversed(sources.rbegin(), sources.rend());
  Tensor result = Tensor::Empty(kContext, kDTypeOf<TypeParam>, {1000});
  Reduce(ReduceOp::kSum, Pointers(reversed), result);
  EXPECT_THAT(result, BitEquals(Naive<TypeParam>(ReduceOp::kSum, reversed)));
  EXPECT_FALSE(BitEqual(result, Naive<TypeParam>(ReduceOp::kSum, sources)));
}

TYPED_TEST(ReduceTest, TheResultMayBeAnySource) {
  for (size_t place = 0; place < 3; ++place) {
    const std::vector<Tensor> sources = Sources<TypeParam>(3, 2000);
    const Tensor expected = Naive<TypeParam>(ReduceOp::kSum, sources);
    Tensor result = sources[place];
    Reduce(ReduceOp::kSum, Pointers(sources), result);
    EXPECT_THAT(result, BitEquals(expected)) << "source " << place;
  }
}

TYPED_TEST(ReduceTest, NanWinsInEveryOperationAndFromEverySource) {
  for (ReduceOp op : kOps) {
    for (int64_t place = 0; place < 3; ++place) {
      std::vector<Tensor> sources = Sources<TypeParam>(3, 5);
      sources[place] = testing::WithNan<TypeParam>(sources[place], 2);
      Tensor result = Tensor::Empty(kContext, kDTypeOf<TypeParam>, {5});
      Reduce(op, Pointers(sources), result);
      EXPECT_THAT(testing::NanElements<TypeParam>(result), ::testing::ElementsAre(2))
          << Name(op) << " source " << place;
    }
  }
}

TEST(ReduceIntegersTest, SumMaxAndMinAreExactAndAverageIsRefused) {
  const int64_t big = int64_t{1} << 60;
  const std::vector<Tensor> sources = {Tensor::FromVector<int64_t>(kContext, {2}, {big + 1, -3}),
                                       Tensor::FromVector<int64_t>(kContext, {2}, {big, 5})};
  Tensor result = Tensor::Empty(kContext, DType::kI64, {2});
  Reduce(ReduceOp::kSum, Pointers(sources), result);
  EXPECT_THAT(result.ToVector<int64_t>(), ::testing::ElementsAre(2 * big + 1, 2));
  Reduce(ReduceOp::kMax, Pointers(sources), result);
  EXPECT_THAT(result.ToVector<int64_t>(), ::testing::ElementsAre(big + 1, 5));
  Reduce(ReduceOp::kMin, Pointers(sources), result);
  EXPECT_THAT(result.ToVector<int64_t>(), ::testing::ElementsAre(big, -3));
  EXPECT_THROW(Reduce(ReduceOp::kAvg, Pointers(sources), result), InvalidArgument);
}

TEST(ReduceErrorsTest, SizesAndDTypesMustAgree) {
  const std::vector<Tensor> sources = Sources<double>(2, 4);
  Tensor short_result = Tensor::Empty(kContext, DType::kF64, {3});
  EXPECT_THROW(Reduce(ReduceOp::kSum, Pointers(sources), short_result), InvalidArgument);
  Tensor other_dtype = Tensor::Empty(kContext, DType::kF32, {4});
  EXPECT_THROW(Reduce(ReduceOp::kSum, Pointers(sources), other_dtype), InvalidArgument);
  EXPECT_THROW(Reduce(ReduceOp::kSum, {}, short_result), InvalidArgument);
}

}  // namespace
}  // namespace plumbline
