#include "parallel/comm/fiber_stack.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/error.h"

namespace plumbline {
namespace {

constexpr std::array<uint64_t, 8> kCanary = {
    0x5043414e41525921, 0xa5a5a5a5a5a5a5a5, 0x0123456789abcdef, 0xfedcba9876543210,
    0x5a5a5a5a5a5a5a5a, 0x0f1e2d3c4b5a6978, 0x13579bdf02468ace, 0x5043414e41525921};

// Counts mappings of the process, which worlds in other threads share.
std::atomic<int> guards_in_use = 0;

bool TakeGuards(int count) {
  int used = guards_in_use.load();
  do {
    if (count > StackSlab::kMaxGuards - used) return false;
  } while (!guards_in_use.compare_exchange_weak(used, used + count));
  return true;
}

}  // namespace

size_t DefaultStackBytes() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return size_t{1} << 20;
#else
  return size_t{128} << 10;
#endif
}

StackSlab::StackSlab(int count, size_t stack_bytes) : count_(count) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  stack_bytes_ = (stack_bytes + page - 1) / page * page;
  const bool want_guards = TakeGuards(count);
  stride_ = stack_bytes_ + (want_guards ? page : 0);
  const size_t total = stride_ * static_cast<size_t>(count);
  void* memory = mmap(nullptr, total, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) {
    if (want_guards) guards_in_use -= count;
    throw Unavailable("stacks of {} ranks: cannot map {} bytes: {}", count, total,
                      std::strerror(errno));
  }
  base_ = static_cast<std::byte*>(memory);
  // A huge page would make every stack fully resident. Refused where the kernel has none; no loss.
  madvise(memory, total, MADV_NOHUGEPAGE);
  guarded_ = want_guards && ProtectAll();
  if (want_guards && !guarded_) guards_in_use -= count;
}

StackSlab::~StackSlab() {
  const size_t total = stride_ * static_cast<size_t>(count_);
  munmap(base_, total);
  if (guarded_) guards_in_use -= count_;
}

bool StackSlab::ProtectAll() {
  const size_t page = stride_ - stack_bytes_;
  for (int i = 0; i < count_; ++i) {
    std::byte* guard = base_ + static_cast<size_t>(i) * stride_;
    if (mprotect(guard, page, PROT_NONE) == 0) continue;
    // Out of mappings: better no guard at all than a half-guarded slab that looks safe.
    mprotect(base_, stride_ * static_cast<size_t>(count_), PROT_READ | PROT_WRITE);
    return false;
  }
  return true;
}

std::byte* StackSlab::bottom(int index) const {
  return base_ + static_cast<size_t>(index + 1) * stride_ - stack_bytes_;
}

void StackSlab::PlantCanary(int index) {
  if (!guarded_) std::memcpy(bottom(index), kCanary.data(), sizeof(kCanary));
}

bool StackSlab::CanaryIntact(int index) const {
  return guarded_ || std::memcmp(bottom(index), kCanary.data(), sizeof(kCanary)) == 0;
}

}  // namespace plumbline
