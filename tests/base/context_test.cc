#include "base/context.h"

#include <gtest/gtest.h>

namespace plumbline {
namespace {

TEST(ContextTest, MemoryIsTheGivenAllocatorElseTheDefaultOne) {
  Allocator own;
  Context context;
  EXPECT_EQ(&context.memory(), &DefaultAllocator());
  context.allocator = &own;
  EXPECT_EQ(&context.memory(), &own);
}

}  // namespace
}  // namespace plumbline
