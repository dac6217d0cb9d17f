// Where tensors get their memory: counted by category, poisoned when fresh and when freed.
#ifndef PLUMBLINE_BASE_ALLOCATOR_H_
#define PLUMBLINE_BASE_ALLOCATOR_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace plumbline {

enum class MemoryCategory : uint8_t {
  kParameter,
  kGradient,
  kOptimizer,
  kActivation,
  kCommunication,
  kGathered,  // weights of others, for as long as a unit of the model needs them
  kOther
};
inline constexpr size_t kMemoryCategories = 7;
std::string_view Name(MemoryCategory category);

struct MemoryUse {
  int64_t bytes_now = 0;
  int64_t bytes_peak = 0;
};

// Host memory of one rank, 64-byte aligned. Fresh memory is filled with kPoisonByte (as a float of
// any width that is a NaN), so that reading what was never written shows; freed memory is filled
// again. Not thread-safe: the ranks of a world run one at a time.
class Allocator {
 public:
  static constexpr unsigned char kPoisonByte = 0xFF;

  // `poison`: both fillings.
  explicit Allocator(bool poison = true) : poison_(poison) {}
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  void* Allocate(size_t bytes, MemoryCategory category);
  void Free(void* memory, size_t bytes, MemoryCategory category) noexcept;
  const MemoryUse& use(MemoryCategory category) const {
    return use_[static_cast<size_t>(category)];
  }

 private:
  bool poison_;
  std::array<MemoryUse, kMemoryCategories> use_ = {};
};

// For tensors that belong to no rank: the reference's, files'. One per thread, never destroyed.
Allocator& DefaultAllocator();

}  // namespace plumbline

#endif  // PLUMBLINE_BASE_ALLOCATOR_H_
