// What an operator or collective runs on: device, stream, allocator. Passed first, never global.
#ifndef PLUMBLINE_BASE_CONTEXT_H_
#define PLUMBLINE_BASE_CONTEXT_H_

#include <cstdint>

#include "base/allocator.h"

namespace plumbline {

enum class Device : uint8_t { kHost };

// An order of execution. On the host every stream runs at once, so that it has no state yet.
struct Stream {};

// How a matrix product adds up its k terms. The default is one chain; the others serve to measure
// how much a result depends on the order: k is cut into `splits` blocks, each a chain of its own,
// and the blocks' sums are added up ascending or descending.
struct SumOrder {
  int splits = 1;
  bool descending = false;
  // bf16 and f16: each block's sum is rounded, and each addition of two, as where tensor-parallel
  // ranks hold the blocks and reduce them. Not of weight gradients, whose sum over tokens no layout
  // splits in 16 bits.
  bool rounded = false;
};

struct Context {
  Device device = Device::kHost;
  Stream* stream = nullptr;
  Allocator* allocator = nullptr;  // nullptr: DefaultAllocator()
  SumOrder sum_order = {};

  Allocator& memory() const { return allocator != nullptr ? *allocator : DefaultAllocator(); }
};

}  // namespace plumbline

#endif  // PLUMBLINE_BASE_CONTEXT_H_
