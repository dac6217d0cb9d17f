#include "base/dtype.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <type_traits>

namespace plumbline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(DTypeTest, NamesAreInvertible) {
  for (DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16, DType::kI64}) {
    EXPECT_EQ(DTypeFromName(Name(dtype)), dtype);
  }
}

TEST(DTypeTest, SizesAreThoseOfTheTypes) {
  EXPECT_EQ(SizeOf(kDTypeOf<double>), sizeof(double));
  EXPECT_EQ(SizeOf(kDTypeOf<float>), sizeof(float));
  EXPECT_EQ(SizeOf(kDTypeOf<int64_t>), sizeof(int64_t));
  EXPECT_EQ(SizeOf(kDTypeOf<BF16>), sizeof(BF16));
  EXPECT_EQ(SizeOf(kDTypeOf<F16>), sizeof(F16));
}

TEST(DTypeTest, UnknownNameIsRefusedWithTheChoices) {
  EXPECT_THAT([] { DTypeFromName("f8"); },
              ThrowsMessage<InvalidArgument>(AllOf(HasSubstr("'f8'"), HasSubstr("bf16"))));
}

TEST(DTypeTest, DispatchPicksTheComputeType) {
  const auto size = [](DType dtype) {
    return DispatchScalar(dtype, []<class T>() { return sizeof(T); });
  };
  EXPECT_EQ(size(DType::kF64), 8u);
  EXPECT_EQ(size(DType::kF32), 4u);
  EXPECT_THAT([&] { size(DType::kI64); }, ThrowsMessage<InvalidArgument>(HasSubstr("i64")));
}

TEST(DTypeTest, DispatchRealPicksTheStorageType) {
  for (DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16}) {
    EXPECT_EQ(DispatchReal(dtype, []<class T>() { return kDTypeOf<T>; }), dtype);
  }
  const auto run = [](DType dtype) { DispatchReal(dtype, []<class T>() {}); };
  EXPECT_THAT([&] { run(DType::kI64); }, ThrowsMessage<InvalidArgument>(HasSubstr("i64")));
  EXPECT_THAT([&] { run(DType::kM61); }, ThrowsMessage<InvalidArgument>(HasSubstr("m61")));
}

TEST(DTypeTest, HalvesComputeInF32) {
  for (DType dtype : {DType::kF64, DType::kF32, DType::kI64, DType::kM61}) {
    EXPECT_FALSE(IsHalf(dtype));
    EXPECT_EQ(ComputeDType(dtype), dtype);
  }
  for (DType dtype : {DType::kBF16, DType::kF16}) {
    EXPECT_TRUE(IsHalf(dtype));
    EXPECT_EQ(ComputeDType(dtype), DType::kF32);
  }
}

// u is the largest number that, added to 1, is rounded away.
TEST(DTypeTest, UnitRoundoffIsWhatOneSwallows) {
  for (DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16}) {
    DispatchReal(dtype, [&]<class T>() {
      const double u = UnitRoundoff(dtype);
      if constexpr (!std::is_same_v<T, double>) {
        EXPECT_EQ(static_cast<double>(static_cast<T>(1 + u)), 1) << Name(dtype);
        EXPECT_EQ(static_cast<double>(static_cast<T>(1 + 1.5 * u)), 1 + 2 * u) << Name(dtype);
      } else {
        EXPECT_EQ(1 + u, 1);
        EXPECT_EQ(1 + 1.5 * u, 1 + 2 * u);
      }
    });
  }
  EXPECT_THROW(UnitRoundoff(DType::kI64), InvalidArgument);
}

}  // namespace
}  // namespace plumbline
