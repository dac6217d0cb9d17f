#include "parallel/comm/fiber_stack.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>

namespace plumbline {
namespace {

constexpr size_t kBytes = size_t{64} << 10;

int64_t ResidentKilobytes() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.rfind("VmRSS:", 0) == 0) return std::stoll(line.substr(6));
  }
  return 0;
}

TEST(StackSlab, StacksDontOverlapAndAreWritable) {
  StackSlab slab(5, kBytes);
  for (int i = 0; i < 5; ++i) std::memset(slab.bottom(i), i + 1, slab.bytes());
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(static_cast<int>(slab.bottom(i)[0]), i + 1);
    EXPECT_EQ(static_cast<int>(slab.bottom(i)[slab.bytes() - 1]), i + 1);
  }
}

TEST(StackSlab, SizesAreRoundedToPages) { EXPECT_EQ(StackSlab(1, kBytes + 1).bytes() % 4096, 0u); }

TEST(StackSlabDeathTest, AGuardPageLiesBelowEachStack) {
  StackSlab slab(3, kBytes);
  ASSERT_TRUE(slab.guarded());
  for (int i = 0; i < 3; ++i) EXPECT_DEATH(slab.bottom(i)[-1] = std::byte{1}, "");
}

TEST(StackSlab, BeyondTheBudgetACanaryTellsOfAnOverrun) {
  StackSlab slab(StackSlab::kMaxGuards + 1, kBytes);
  ASSERT_FALSE(slab.guarded());
  slab.PlantCanary(7);
  EXPECT_TRUE(slab.CanaryIntact(7));
  slab.bottom(7)[63] = std::byte{0};
  EXPECT_FALSE(slab.CanaryIntact(7));
}

TEST(StackSlab, TheBudgetIsGivenBack) {
  for (int round = 0; round < 2; ++round) {
    StackSlab large(StackSlab::kMaxGuards - 10, kBytes);
    EXPECT_TRUE(large.guarded());
    StackSlab rest(11, kBytes);
    EXPECT_FALSE(rest.guarded());
    StackSlab fits(10, kBytes);
    EXPECT_TRUE(fits.guarded());
  }
}

TEST(StackSlab, UntouchedStacksAreNotResident) {
  const int64_t before = ResidentKilobytes();
  StackSlab slab(StackSlab::kMaxGuards, kBytes);
  EXPECT_LT(ResidentKilobytes() - before, 65536);  // of 1 GiB
}

}  // namespace
}  // namespace plumbline
