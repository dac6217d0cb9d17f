#include "parallel/comm/scheduler.h"

#include <fmt/format.h>

#include <boost/context/fiber.hpp>
#include <boost/context/stack_context.hpp>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <random>
#include <utility>
#include <vector>

#include "base/error.h"
#include "parallel/comm/fiber_stack.h"
#include "parallel/comm/fiber_switch.h"

namespace plumbline {
namespace {

namespace context = boost::context;

// Hands boost a stack that lives in the slab.
struct SlabStack {
  std::byte* bottom;
  size_t bytes;

  context::stack_context allocate() {
    context::stack_context stack;
    stack.size = bytes;
    stack.sp = bottom + bytes;
    return stack;
  }
  void deallocate(context::stack_context&) noexcept {}
};

// The ranks that can run. Every operation takes constant time.
class RunQueue {
 public:
  RunQueue(int ranks, bool random, uint64_t seed)
      : random_(random), engine_(seed), next_(random ? 0 : static_cast<size_t>(ranks), -1) {
    if (random) list_.reserve(static_cast<size_t>(ranks));
  }

  int size() const { return size_; }

  void Push(int rank) {
    ++size_;
    if (random_) {
      list_.push_back(rank);
      return;
    }
    next_[rank] = -1;
    (tail_ < 0 ? head_ : next_[tail_]) = rank;
    tail_ = rank;
  }

  int Pop() {
    --size_;
    if (!random_) {
      const int rank = head_;
      head_ = next_[rank];
      if (head_ < 0) tail_ = -1;
      return rank;
    }
    // Multiply and shift: uniform to within 2^-32, and the same on every standard library.
    const uint64_t draw = engine_() >> 32;
    std::swap(list_[(draw * list_.size()) >> 32], list_.back());
    const int rank = list_.back();
    list_.pop_back();
    return rank;
  }

 private:
  bool random_;
  int size_ = 0;
  std::mt19937_64 engine_;
  std::vector<int> list_;  // random policy
  std::vector<int> next_;  // round-robin: the list's links
  int head_ = -1;
  int tail_ = -1;
};

enum class State : uint8_t { kNew, kReady, kRunning, kBlocked, kEnded, kAbandoned };

struct Fiber {
  context::fiber context;
  ExceptionState exceptions;
  StackNote note;
  State state = State::kNew;
};

// Contexts of abandoned ranks: destroying one would run it once more. Never freed.
void KeepForever(context::fiber abandoned) {
  static std::mutex mutex;
  static auto* kept = new std::vector<context::fiber>();
  const std::lock_guard<std::mutex> lock(mutex);
  kept->push_back(std::move(abandoned));
}

}  // namespace

class Scheduler::Impl {
 public:
  explicit Impl(const SchedulerOptions& options)
      : seed_(options.seed),
        slab_(options.ranks, options.stack_bytes == 0 ? DefaultStackBytes() : options.stack_bytes),
        queue_(options.ranks, options.random, options.seed),
        fibers_(static_cast<size_t>(options.ranks)) {}

  ~Impl() {
    // Only when Run has thrown: to destroy a suspended context would run it once more.
    for (Fiber& fiber : fibers_) {
      if (fiber.context) KeepForever(std::move(fiber.context));
    }
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void Run(const std::function<void(int)>& body, const std::function<void()>& stuck) {
    body_ = &body;
    exceptions_ = ThreadExceptionState();
    running_ = &CurrentRank();
    NoteThread(main_note_);
    int alive = static_cast<int>(fibers_.size());
    for (int rank = 0; rank < alive; ++rank) queue_.Push(rank);
    while (alive > 0) {
      if (queue_.size() == 0) stuck();
      PL_CHECK(queue_.size() > 0);
      const int rank = queue_.Pop();
      Resume(rank);
      if (fibers_[rank].state >= State::kEnded) --alive;
    }
  }

  // On a rank's stack: back to the main loop.
  void Suspend(State state) {
    Fiber& fiber = fibers_[current_];
    fiber.state = state;
    BeforeSwitch(fiber.note, main_note_);
    main_ = std::move(main_).resume();
    AfterSwitch(fiber.note, &main_note_);
  }

  void Yield() {
    queue_.Push(current_);
    Suspend(State::kReady);
  }

  void Unblock(int rank) {
    if (fibers_[rank].state != State::kBlocked) return;
    fibers_[rank].state = State::kReady;
    queue_.Push(rank);
  }

  int current() const { return current_; }
  int64_t steps() const { return steps_; }
  int runnable() const { return queue_.size() + (current_ >= 0 ? 1 : 0); }
  State state(int rank) const { return fibers_[rank].state; }

 private:
  void Start(int rank) {
    Fiber& fiber = fibers_[rank];
    fiber.note.bottom = slab_.bottom(rank);
    fiber.note.bytes = slab_.bytes();
    CreateNote(fiber.note);
    slab_.PlantCanary(rank);
    fiber.context = context::fiber(std::allocator_arg, SlabStack{slab_.bottom(rank), slab_.bytes()},
                                   [this, rank](context::fiber&& main) {
                                     main_ = std::move(main);
                                     AfterSwitch(StackNote(), &main_note_);
                                     (*body_)(rank);
                                     fibers_[rank].state = State::kEnded;
                                     BeforeSwitch(fibers_[rank].note, main_note_, /*dying=*/true);
                                     return std::move(main_);
                                   });
  }

  void Resume(int rank) {
    Fiber& fiber = fibers_[rank];
    if (fiber.state == State::kNew) Start(rank);
    fiber.state = State::kRunning;
    current_ = rank;
    ++steps_;
    const RunningRank outer_rank = *running_;
    const ExceptionState outer_exceptions = *exceptions_;
    *running_ = RunningRank{rank, seed_};
    *exceptions_ = fiber.exceptions;
    BeforeSwitch(main_note_, fiber.note);
    fiber.context = std::move(fiber.context).resume();
    AfterSwitch(main_note_, nullptr);
    fiber.exceptions = *exceptions_;
    *exceptions_ = outer_exceptions;
    *running_ = outer_rank;
    current_ = -1;
    if (fiber.state >= State::kEnded) {
      ForgetStack(fiber.note, fiber.state == State::kAbandoned);
      DestroyNote(fiber.note);
    }
    if (fiber.state == State::kAbandoned) KeepForever(std::move(fiber.context));
    if (!slab_.CanaryIntact(rank)) Overrun(rank);
  }

  // A neighbour's stack is damaged: nothing that runs from here on can be trusted.
  [[noreturn]] void Overrun(int rank) const {
    fmt::print(stderr, "rank {} overran its stack of {} bytes; raise WorldOptions::stack_bytes\n",
               rank, slab_.bytes());
    std::abort();
  }

  uint64_t seed_;
  StackSlab slab_;
  RunQueue queue_;
  std::vector<Fiber> fibers_;
  context::fiber main_;
  StackNote main_note_;
  const std::function<void(int)>* body_ = nullptr;
  ExceptionState* exceptions_ = nullptr;
  RunningRank* running_ = nullptr;
  int current_ = -1;
  int64_t steps_ = 0;
};

Scheduler::Scheduler(const SchedulerOptions& options) : impl_(std::make_unique<Impl>(options)) {}
Scheduler::~Scheduler() = default;

void Scheduler::Run(const std::function<void(int)>& body, const std::function<void()>& stuck) {
  impl_->Run(body, stuck);
}

int Scheduler::current() const { return impl_->current(); }
void Scheduler::Block() { impl_->Suspend(State::kBlocked); }
void Scheduler::Yield() { impl_->Yield(); }

void Scheduler::Abandon() {
  impl_->Suspend(State::kAbandoned);
  std::abort();  // an abandoned rank is never resumed
}

void Scheduler::Unblock(int rank) { impl_->Unblock(rank); }
bool Scheduler::blocked(int rank) const { return impl_->state(rank) == State::kBlocked; }
bool Scheduler::ended(int rank) const { return impl_->state(rank) >= State::kEnded; }
int Scheduler::runnable() const { return impl_->runnable(); }
int64_t Scheduler::steps() const { return impl_->steps(); }

}  // namespace plumbline
