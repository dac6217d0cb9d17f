#include "base/allocator.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <set>
#include <string>

#include "base/error.h"

namespace plumbline {
namespace {

TEST(AllocatorTest, FreshMemoryIsPoisonAndAligned) {
  Allocator allocator;
  for (size_t bytes : {0, 1, 63, 64, 65, 4096, 100000}) {
    auto* memory = static_cast<unsigned char*>(allocator.Allocate(bytes, MemoryCategory::kOther));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 64, 0u) << bytes;
    for (size_t i = 0; i < bytes; ++i) ASSERT_EQ(memory[i], Allocator::kPoisonByte) << i;
    allocator.Free(memory, bytes, MemoryCategory::kOther);
  }
}

TEST(AllocatorTest, PoisonIsNaNAtEveryFloatWidth) {
  double f64;
  float f32;
  std::memset(&f64, Allocator::kPoisonByte, sizeof(f64));
  std::memset(&f32, Allocator::kPoisonByte, sizeof(f32));
  EXPECT_NE(f64, f64);
  EXPECT_NE(f32, f32);
}

TEST(AllocatorTest, CountsByCategoryAndRemembersThePeak) {
  Allocator allocator;
  void* a = allocator.Allocate(100, MemoryCategory::kGradient);
  void* b = allocator.Allocate(50, MemoryCategory::kGradient);
  void* c = allocator.Allocate(7, MemoryCategory::kParameter);
  allocator.Free(a, 100, MemoryCategory::kGradient);
  EXPECT_EQ(allocator.use(MemoryCategory::kGradient).bytes_now, 50);
  EXPECT_EQ(allocator.use(MemoryCategory::kGradient).bytes_peak, 150);
  EXPECT_EQ(allocator.use(MemoryCategory::kParameter).bytes_now, 7);
  EXPECT_EQ(allocator.use(MemoryCategory::kActivation).bytes_peak, 0);
  allocator.Free(b, 50, MemoryCategory::kGradient);
  allocator.Free(c, 7, MemoryCategory::kParameter);
  EXPECT_EQ(allocator.use(MemoryCategory::kGradient).bytes_now, 0);
}

TEST(AllocatorTest, ImpossibleSizeIsUnavailable) {
  Allocator allocator(/*poison=*/false);
  EXPECT_THROW(allocator.Allocate(std::numeric_limits<size_t>::max() / 4, MemoryCategory::kOther),
               Unavailable);
  EXPECT_EQ(allocator.use(MemoryCategory::kOther).bytes_peak, 0);
}

TEST(AllocatorTest, CategoriesHaveDistinctNames) {
  std::set<std::string> names;
  for (size_t i = 0; i < kMemoryCategories; ++i) {
    names.insert(std::string(Name(static_cast<MemoryCategory>(i))));
  }
  EXPECT_EQ(names.size(), kMemoryCategories);
}

}  // namespace
}  // namespace plumbline
