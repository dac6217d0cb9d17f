// What an operator or collective runs on: device, stream, allocator. Passed first, never global.
#ifndef PLUMBLINE_BASE_CONTEXT_H_
#define PLUMBLINE_BASE_CONTEXT_H_

#include <cstdint>

#include "base/allocator.h"

namespace plumbline {

enum class Device : uint8_t { kHost };

// An order of execution. On the host every stream runs at once, so that it has no state yet.
struct Stream {};

struct Context {
  Device device = Device::kHost;
  Stream* stream = nullptr;
  Allocator* allocator = nullptr;  // nullptr: DefaultAllocator()

  Allocator& memory() const { return allocator != nullptr ? *allocator : DefaultAllocator(); }
};

}  // namespace plumbline

#endif  // PLUMBLINE_BASE_CONTEXT_H_
