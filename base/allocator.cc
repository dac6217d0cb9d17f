#include "base/allocator.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <new>

#include "base/error.h"

namespace plumbline {
namespace {

constexpr size_t kAlignment = 64;

size_t RoundUp(size_t bytes) {
  return std::max(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
}

}  // namespace

std::string_view Name(MemoryCategory category) {
  constexpr std::string_view kNames[kMemoryCategories] = {
      "parameter", "gradient", "optimizer", "activation", "communication", "gathered", "other"};
  return kNames[static_cast<size_t>(category)];
}

void* Allocator::Allocate(size_t bytes, MemoryCategory category) {
  void* memory = std::aligned_alloc(kAlignment, RoundUp(bytes));
  if (memory == nullptr) throw Unavailable("out of memory: {} bytes for {}", bytes, Name(category));
  if (poison_) std::memset(memory, kPoisonByte, bytes);
  MemoryUse& use = use_[static_cast<size_t>(category)];
  use.bytes_now += static_cast<int64_t>(bytes);
  use.bytes_peak = std::max(use.bytes_peak, use.bytes_now);
  return memory;
}

void Allocator::Free(void* memory, size_t bytes, MemoryCategory category) noexcept {
  if (poison_) std::memset(memory, kPoisonByte, bytes);
  std::free(memory);
  use_[static_cast<size_t>(category)].bytes_now -= static_cast<int64_t>(bytes);
}

Allocator& DefaultAllocator() {
  // Tensors outlive their thread, so that its allocator has to stay, and be reachable.
  static std::mutex mutex;
  static auto* all = new std::deque<Allocator>;
  thread_local Allocator* own = nullptr;
  if (own == nullptr) {
    const std::lock_guard<std::mutex> lock(mutex);
    own = &all->emplace_back(/*poison=*/true);
  }
  return *own;
}

}  // namespace plumbline
