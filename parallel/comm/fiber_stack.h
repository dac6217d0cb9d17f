// The stacks of all ranks of a world, in one mapping.
//
// One mapping without huge pages costs address space only: a page of a stack becomes resident when
// the rank first touches it. A guard page lies below each stack as long as the process has few
// enough of them, because each takes two of the kernel's 65,530 mappings; beyond that a canary at
// the low end tells of an overrun after the fact.
//
// Errors: Unavailable when the mapping is refused.
#ifndef PLUMBLINE_PARALLEL_COMM_FIBER_STACK_H_
#define PLUMBLINE_PARALLEL_COMM_FIBER_STACK_H_

#include <cstddef>

namespace plumbline {

// 128 KiB, and more under a sanitizer, whose frames are larger.
size_t DefaultStackBytes();

class StackSlab {
 public:
  // Guard pages that all slabs of the process may hold together.
  static constexpr int kMaxGuards = 16384;

  StackSlab(int count, size_t stack_bytes);
  ~StackSlab();
  StackSlab(const StackSlab&) = delete;
  StackSlab& operator=(const StackSlab&) = delete;

  // The lowest usable address of a stack; the stack grows down from bottom + bytes.
  std::byte* bottom(int index) const;
  size_t bytes() const { return stack_bytes_; }
  bool guarded() const { return guarded_; }
  // Writes the canary of an unguarded stack, and tells whether it is still there. Nothing to do and
  // true when guarded.
  void PlantCanary(int index);
  bool CanaryIntact(int index) const;

 private:
  bool ProtectAll();

  int count_;
  size_t stack_bytes_;
  size_t stride_ = 0;
  std::byte* base_ = nullptr;
  bool guarded_ = false;
};

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_COMM_FIBER_STACK_H_
