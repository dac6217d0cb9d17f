#include "base/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace plumbline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// 0, 1, 2, ... so that an element tells where it was.
Tensor Iota(const Shape& shape) {
  std::vector<double> values(static_cast<size_t>(ElementsOf(shape)));
  std::iota(values.begin(), values.end(), 0);
  return Tensor::FromVector(Context{}, shape, values);
}

// Calls f(index) for every index of a shape, row-major.
template <class F>
void ForEachIndex(const Shape& shape, F&& f) {
  for (int64_t i = 0; i < ElementsOf(shape); ++i) {
    std::vector<int64_t> index(shape.size());
    int64_t rest = i;
    for (size_t axis = shape.size(); axis-- > 0;) {
      index[axis] = rest % shape[axis];
      rest /= shape[axis];
    }
    f(index);
  }
}

const std::vector<Shape> kShapes = {{},     {1},       {5},       {0},          {3, 4},
                                    {3, 0}, {2, 1, 5}, {2, 3, 4}, {1, 1, 3, 2}, {2, 0, 3}};

TEST(TensorTest, VectorsGoInAndOut) {
  for (const Shape& shape : kShapes) {
    const Tensor x = Iota(shape);
    EXPECT_EQ(x.elements(), ElementsOf(shape));
    EXPECT_EQ(x.bytes(), static_cast<size_t>(x.elements()) * 8);
    EXPECT_TRUE(x.contiguous());
    const std::vector<double> values = x.ToVector<double>();
    for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], i);
    int64_t expected = 0;
    ForEachIndex(shape, [&](const auto& index) { EXPECT_EQ(x.at<double>(index), expected++); });
  }
}

TEST(TensorTest, UndefinedTensorHasNoStorage) {
  EXPECT_FALSE(Tensor().defined());
  EXPECT_THROW(Tensor().raw(), Internal);
}

TEST(TensorTest, EmptyIsPoisonUntilWrittenAndZerosIsZero) {
  const Tensor f64 = Tensor::Empty(Context{}, DType::kF64, {2, 3});
  for (double x : f64.ToVector<double>()) EXPECT_TRUE(std::isnan(x));
  const Tensor f32 = Tensor::Empty(Context{}, DType::kF32, {2, 3});
  for (float x : f32.ToVector<float>()) EXPECT_TRUE(std::isnan(x));
  const Tensor zeros = Tensor::Zeros(Context{}, DType::kI64, {2, 3});
  for (int64_t x : zeros.ToVector<int64_t>()) EXPECT_EQ(x, 0);
}

TEST(TensorTest, StorageIsCountedWhileAnyViewLives) {
  Allocator allocator;
  Context context;
  context.allocator = &allocator;
  const auto now = [&] { return allocator.use(MemoryCategory::kGradient).bytes_now; };
  Tensor view;
  {
    const Tensor x = Tensor::Zeros(context, DType::kF32, {4, 8}, MemoryCategory::kGradient);
    view = x.Slice(0, 1, 2);
    EXPECT_EQ(now(), 128);
    EXPECT_TRUE(view.SharesStorage(x));
  }
  EXPECT_EQ(now(), 128);
  view = Tensor();
  EXPECT_EQ(now(), 0);
}

TEST(TensorTest, TransposeExchangesIndices) {
  const Tensor x = Iota({2, 3, 4});
  const Tensor y = x.Transpose(0, -1);
  EXPECT_EQ(y.shape(), (Shape{4, 3, 2}));
  EXPECT_FALSE(y.contiguous());
  ForEachIndex(y.shape(), [&](const auto& i) {
    EXPECT_EQ(y.at<double>(i), x.at<double>({i[2], i[1], i[0]}));
  });
}

TEST(TensorTest, SliceAndSelectShiftIndices) {
  const Tensor x = Iota({3, 4, 2});
  const Tensor slice = x.Slice(1, 1, 3);
  EXPECT_EQ(slice.shape(), (Shape{3, 2, 2}));
  ForEachIndex(slice.shape(), [&](const auto& i) {
    EXPECT_EQ(slice.at<double>(i), x.at<double>({i[0], i[1] + 1, i[2]}));
  });
  const Tensor selected = slice.Select(-2, 1);
  EXPECT_EQ(selected.shape(), (Shape{3, 2}));
  ForEachIndex(selected.shape(), [&](const auto& i) {
    EXPECT_EQ(selected.at<double>(i), x.at<double>({i[0], 2, i[1]}));
  });
  EXPECT_EQ(x.Slice(0, 3, 3).elements(), 0);
}

TEST(TensorTest, ViewKeepsTheOrder) {
  const Tensor x = Iota({2, 6});
  EXPECT_EQ(x.View({3, -1}).shape(), (Shape{3, 4}));
  EXPECT_EQ(x.View({3, 4}).ToVector<double>(), x.ToVector<double>());
  EXPECT_TRUE(x.View({12}).SharesStorage(x));
  EXPECT_THAT([&] { x.View({5}); },
              ThrowsMessage<InvalidArgument>(AllOf(HasSubstr("[2, 6]"), HasSubstr("[5]"))));
  EXPECT_THROW(x.View({5, -1}), InvalidArgument);
  EXPECT_THROW(x.Transpose(0, 1).View({12}), Internal);
}

TEST(TensorTest, ContiguousPacksOnlyWhatIsNot) {
  const Tensor x = Iota({3, 4});
  EXPECT_TRUE(x.Contiguous(Context{}).SharesStorage(x));
  const Tensor packed = x.Transpose(0, 1).Contiguous(Context{});
  EXPECT_TRUE(packed.contiguous());
  EXPECT_FALSE(packed.SharesStorage(x));
  ForEachIndex(packed.shape(), [&](const auto& i) {
    EXPECT_EQ(packed.at<double>(i), x.at<double>({i[1], i[0]}));
  });
}

TEST(TensorTest, ExtentOneIsContiguousWhateverItsStride) {
  const Tensor x = Iota({3, 4});
  EXPECT_TRUE(x.Slice(0, 1, 2).contiguous());
  EXPECT_FALSE(x.Slice(1, 1, 2).contiguous());
  EXPECT_TRUE(x.Slice(0, 1, 2).Transpose(0, 1).contiguous());
}

// Every pair of layouts of the same logical shape.
TEST(TensorTest, CopyWorksBetweenAnyStrides) {
  const auto layouts = [](double first) {
    std::vector<Tensor> result;
    const Tensor big = Iota({4, 6, 5});
    double* values = const_cast<Tensor&>(big).data<double>();
    for (int64_t i = 0; i < big.elements(); ++i) values[i] += first;
    result.push_back(big.Slice(0, 1, 3).Slice(1, 2, 5).Slice(2, 0, 4));
    result.push_back(Iota({2, 3, 4}));
    result.push_back(Iota({4, 3, 2}).Transpose(0, 2));
    result.push_back(Iota({3, 2, 4}).Transpose(0, 1));
    result.push_back(Iota({2, 3, 4, 2}).Select(3, 1));
    return result;
  };
  for (size_t a = 0; a < 5; ++a) {
    for (size_t b = 0; b < 5; ++b) {
      Tensor to = layouts(0)[a];
      const Tensor from = layouts(1000)[b];
      to.CopyFrom(from);
      EXPECT_EQ(to.ToVector<double>(), from.ToVector<double>()) << a << " <- " << b;
    }
  }
}

TEST(TensorTest, FillsTouchTheViewOnly) {
  const Tensor x = Iota({3, 4});
  Tensor column = x.Slice(1, 1, 2);
  column.FillZero();
  column.Slice(0, 2, 3).FillPoison();
  ForEachIndex(x.shape(), [&](const auto& i) {
    const double value = x.at<double>(i);
    if (i[1] != 1) {
      EXPECT_EQ(value, i[0] * 4 + i[1]);
    } else if (i[0] < 2) {
      EXPECT_EQ(value, 0);
    } else {
      EXPECT_TRUE(std::isnan(value));
    }
  });
}

TEST(TensorTest, CloneDoesNotShare) {
  const Tensor x = Iota({2, 2});
  Tensor y = x.Clone(Context{});
  y.at<double>({0, 0}) = 9;
  EXPECT_EQ(x.at<double>({0, 0}), 0);
}

TEST(TensorTest, WrongUseIsRefused) {
  const Tensor x = Iota({3, 4});
  EXPECT_THROW(x.data<float>(), Internal);
  EXPECT_THROW(x.ToVector<int64_t>(), Internal);
  EXPECT_THROW(x.dim(2), InvalidArgument);
  EXPECT_THROW(x.dim(-3), InvalidArgument);
  EXPECT_THROW(x.Slice(0, 2, 4), InvalidArgument);
  EXPECT_THROW(x.Slice(0, 2, 1), InvalidArgument);
  EXPECT_THROW(x.Slice(0, -1, 1), InvalidArgument);
  EXPECT_THROW(x.Select(1, 4), InvalidArgument);
  EXPECT_THROW(x.at<double>({3, 0}), Internal);
  EXPECT_THROW(x.at<double>({0, -1}), Internal);
  EXPECT_THROW(x.at<double>({0}), Internal);
  Tensor y = Iota({4, 3});
  EXPECT_THAT([&] { y.CopyFrom(x); },
              ThrowsMessage<InvalidArgument>(AllOf(HasSubstr("[3, 4]"), HasSubstr("[4, 3]"))));
  EXPECT_THROW(y.CopyFrom(Tensor::Zeros(Context{}, DType::kF32, {4, 3})), InvalidArgument);
}

TEST(TensorTest, AbsurdShapesAreRefusedAlsoWhenEmpty) {
  const int64_t huge = std::numeric_limits<int64_t>::max() / 2;
  EXPECT_THROW(ElementsOf({-1}), InvalidArgument);
  EXPECT_THROW(ElementsOf({huge}), InvalidArgument);
  EXPECT_THROW(ElementsOf({1 << 30, 1 << 30, 1 << 30}), InvalidArgument);
  EXPECT_THROW(ElementsOf({0, huge, 2}), InvalidArgument);
  EXPECT_EQ(ElementsOf({0, 7}), 0);
  EXPECT_EQ(ElementsOf({}), 1);
}

TEST(ForEachRunTest, VisitsEachElementOnceInOrder) {
  for (const Shape& shape : kShapes) {
    const Tensor x = Iota(shape);
    const Tensor y = shape.size() < 2 ? x : x.Transpose(0, 1).Contiguous(Context{}).Transpose(0, 1);
    std::vector<double> seen;
    ForEachRun(x, y, [&](int64_t a, int64_t b, int64_t n) {
      for (int64_t i = 0; i < n; ++i) {
        EXPECT_EQ(x.data<double>()[a + i], y.data<double>()[b + i]);
        seen.push_back(x.data<double>()[a + i]);
      }
    });
    EXPECT_EQ(seen, x.ToVector<double>());
  }
}

}  // namespace
}  // namespace plumbline
