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
  EXPECT_EQ(SizeOf(DType::kBF16), 2u);
  EXPECT_EQ(SizeOf(DType::kF16), 2u);
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

}  // namespace
}  // namespace plumbline
