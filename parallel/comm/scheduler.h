// Ranks as fibers of one thread: one runs at a time, until it blocks, yields or ends.
//
// The order in which ranks run is a function of the options and of what the ranks do. A switch
// costs the same whatever the number of ranks. Each rank has its own exception state, so that it
// may be suspended inside a catch block.
//
// Errors: none of its own; whatever escapes a body ends the process, so bodies catch everything.
#ifndef PLUMBLINE_PARALLEL_COMM_SCHEDULER_H_
#define PLUMBLINE_PARALLEL_COMM_SCHEDULER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace plumbline {

struct SchedulerOptions {
  int ranks = 1;
  bool random = false;  // uniformly among the runnable; else in the order in which they became so
  uint64_t seed = 0;
  size_t stack_bytes = 0;  // 0: DefaultStackBytes()
};

class Scheduler {
 public:
  explicit Scheduler(const SchedulerOptions& options);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Runs body(rank) for every rank and returns when all have ended. When no rank can run although
  // some have not ended, calls `stuck`, which must unblock at least one.
  void Run(const std::function<void(int)>& body, const std::function<void()>& stuck);

  // Of the rank that runs:
  int current() const;
  void Block();  // until Unblock
  void Yield();  // lets others run
  // Ends the rank without unwinding its stack. The last resort against a rank that refuses to end.
  [[noreturn]] void Abandon();

  // Makes a blocked rank runnable; nothing for others.
  void Unblock(int rank);
  bool blocked(int rank) const;
  bool ended(int rank) const;
  int runnable() const;   // ranks that can run, the running one included
  int64_t steps() const;  // switches to a rank so far: the simulated time

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_COMM_SCHEDULER_H_
