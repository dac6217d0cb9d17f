// What a change of stacks needs beside the registers: the exception state of the C++ run time, and
// the sanitizers' notes.
#ifndef PLUMBLINE_PARALLEL_COMM_FIBER_SWITCH_H_
#define PLUMBLINE_PARALLEL_COMM_FIBER_SWITCH_H_

#include <cxxabi.h>

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>

#include <algorithm>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace plumbline {

// The two words of abi::__cxa_eh_globals (Itanium C++ ABI, section 2.2.2): the exceptions being
// handled and the count of those in flight. They belong to a thread; ranks that share one would
// rethrow each other's exceptions.
struct ExceptionState {
  void* caught = nullptr;
  unsigned int uncaught = 0;
};

inline ExceptionState* ThreadExceptionState() {
  return reinterpret_cast<ExceptionState*>(abi::__cxa_get_globals());
}

// One side of a switch, as the sanitizers see it. Without a sanitizer nothing is left of it.
struct StackNote {
  const void* bottom = nullptr;
  size_t bytes = 0;
  void* fake_stack = nullptr;
  void* tsan_fiber = nullptr;
};

// Call right before the switch. `dying`: the left stack is never entered again.
inline void BeforeSwitch([[maybe_unused]] StackNote& from, [[maybe_unused]] const StackNote& to,
                         [[maybe_unused]] bool dying = false) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(dying ? nullptr : &from.fake_stack, to.bottom, to.bytes);
#endif
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(to.tsan_fiber, 0);
#endif
}

// Call first thing on the entered stack. `from`: filled in with the bounds of the stack that was
// left, or nullptr.
inline void AfterSwitch([[maybe_unused]] const StackNote& to, [[maybe_unused]] StackNote* from) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(to.fake_stack, from == nullptr ? nullptr : &from->bottom,
                                  from == nullptr ? nullptr : &from->bytes);
#endif
}

// Call when a stack is done with. Frames that never returned left their marks, and the addresses
// may serve another stack: of a rank that ended, the few below the entry; of an abandoned one, any.
inline void ForgetStack([[maybe_unused]] const StackNote& note, [[maybe_unused]] bool abandoned) {
#if defined(__SANITIZE_ADDRESS__)
  const size_t used = abandoned ? note.bytes : std::min(note.bytes, size_t{64} << 10);
  const std::byte* top = static_cast<const std::byte*>(note.bottom) + note.bytes;
  __asan_unpoison_memory_region(top - used, used);
#endif
}

inline void NoteThread([[maybe_unused]] StackNote& note) {
#if defined(__SANITIZE_THREAD__)
  note.tsan_fiber = __tsan_get_current_fiber();
#endif
}

inline void CreateNote([[maybe_unused]] StackNote& note) {
#if defined(__SANITIZE_THREAD__)
  note.tsan_fiber = __tsan_create_fiber(0);
#endif
}

inline void DestroyNote([[maybe_unused]] StackNote& note) {
#if defined(__SANITIZE_THREAD__)
  if (note.tsan_fiber != nullptr) __tsan_destroy_fiber(note.tsan_fiber);
  note.tsan_fiber = nullptr;
#endif
}

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_COMM_FIBER_SWITCH_H_
