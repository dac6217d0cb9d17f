// The reference in a thread of its own, beside the simulated ranks.
#ifndef PLUMBLINE_SCENARIOS_REFERENCE_THREAD_H_
#define PLUMBLINE_SCENARIOS_REFERENCE_THREAD_H_

#include <atomic>
#include <cstdint>
#include <thread>

#include "base/config.h"
#include "base/dtype.h"
#include "scenarios/reference_trace.h"
#include "scenarios/scenario.h"

namespace plumbline {

// The prime and key of a run in a field; they belong to a thread, so that both programs' threads
// are given them.
struct FieldKey {
  DType dtype = DType::kF64;
  uint64_t key = 0;
  uint64_t small_prime = 0;

  void Set() const;
};

// It ends when the trace is complete, when it fails (the trace keeps the error), or when this is
// destroyed. All of them must outlive it.
class ReferenceThread {
 public:
  ReferenceThread(const RunConfig& config, const ScenarioInputs& inputs, const FieldKey& field,
                  ReferenceTrace& trace);
  ReferenceThread(const ReferenceThread&) = delete;
  ReferenceThread& operator=(const ReferenceThread&) = delete;
  ~ReferenceThread();
  // Once the trace is complete.
  int64_t divisions_by_zero() const { return divisions_by_zero_; }

 private:
  ReferenceTrace& trace_;
  std::atomic<int64_t> divisions_by_zero_ = 0;
  std::thread thread_;
};

}  // namespace plumbline

#endif  // PLUMBLINE_SCENARIOS_REFERENCE_THREAD_H_
