// What the reference computed, tensor by tensor, in the order in which it computed it.
//
// The order of production is the order of sites. One thread writes (the reference), another reads
// (the comparison), and a reader waits for what is not there yet, so that both programs run side by
// side.
//
// Numerics: under Adam a parameter's entry carries what Adam makes of rounding (bounds.h).
// Errors:   Record throws Internal when a site comes twice, Aborted after Cancel; Find rethrows
//           what the reference threw.
#ifndef PLUMBLINE_SCENARIOS_REFERENCE_TRACE_H_
#define PLUMBLINE_SCENARIOS_REFERENCE_TRACE_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/config.h"
#include "base/probe.h"
#include "base/site.h"
#include "base/tensor.h"
#include "scenarios/bounds.h"
#include "scenarios/noise_floor.h"
#include "scenarios/update_bounds.h"

namespace plumbline {

// One tensor or counter. Nothing but its vectors changes after it was recorded.
struct ReferenceEntry {
  int64_t ordinal = 0;  // in order of production, from 0
  Site site;
  Shape shape;
  Tensor tensor;         // row-major; undefined for a counter, and after Drop
  int64_t elements = 0;  // of the tensor
  int64_t counter = 0;
  double max_abs = 0;       // over the finite values; of a field 1
  AdamExemption exemption;  // of what Adam's updates reach
  // Of a bf16 or fp16 run's moments and weights: what their elements may be off by.
  std::shared_ptr<const std::vector<float>> allowance;
};

// Whether the parallel program updates masters that are not the parameters themselves: narrower
// parameters, or parts of them that a rank owns.
bool HasMainParams(const RunConfig& config);

class ReferenceTrace : public ReferenceSink {
 public:
  struct Options {
    // Whether a site's values are kept; its place in the order always is. Empty: all are.
    std::function<bool(const Site&)> keep;
    // The reference pauses when it is this far ahead of a reader that drops what it has used.
    int64_t max_bytes_ahead = int64_t{1} << 30;
    // Whether each parameter after a step is there as its master copy too (HasMainParams).
    bool main_params = false;
    // Of a bf16 or fp16 run; it must outlive the trace.
    const NoiseFloor* noise_floor = nullptr;
  };

  explicit ReferenceTrace(const TrainConfig& train) : ReferenceTrace(train, Options{}) {}
  ReferenceTrace(const TrainConfig& train, Options options);

  // The writer's side. It ends with Finish or Fail, whatever happens.
  void Record(const Site& site, Tensor global) override;
  void RecordCounter(const Site& site, int64_t value) override;
  void Finish();
  void Fail(std::exception_ptr error);

  // The reader's side; pointers stay valid. Null when the reference ended without that site.
  const ReferenceEntry* Find(const Site& site);
  // The entry's values, exemption and allowance are no longer needed.
  void Drop(const ReferenceEntry& entry);
  // Stops a reference that is no longer needed.
  void Cancel();

  // After the end of the reference.
  const std::deque<ReferenceEntry>& entries() const { return entries_; }
  // A site's place in the order. A site that the reference lacks takes the place of its nearest
  // kin: the same tensor in the same step, microbatch and phase, else the first of that phase, else
  // the end.
  int64_t PlaceOf(const Site& site) const;

 private:
  void FollowRounding(ReferenceEntry& entry);
  void FollowUpdates(ReferenceEntry& entry);
  void Keep(ReferenceEntry entry);
  void Append(ReferenceEntry entry);
  void WaitForReader(std::unique_lock<std::mutex>& lock, int64_t bytes);

  const Options options_;
  AdamExemptionRule exemption_rule_;  // the writer's
  UpdateBounds update_bounds_;        // likewise, with a noise floor

  mutable std::mutex mutex_;
  std::condition_variable recorded_;
  std::condition_variable dropped_;
  std::deque<ReferenceEntry> entries_;
  std::unordered_map<Site, ReferenceEntry*, SiteHash> by_site_;
  std::vector<Tensor> retired_;  // dropped by the reader, freed by the thread that made them
  int64_t bytes_held_ = 0;
  bool reader_waits_ = false;
  bool ended_ = false;
  bool cancelled_ = false;
  std::exception_ptr error_;
};

}  // namespace plumbline

#endif  // PLUMBLINE_SCENARIOS_REFERENCE_TRACE_H_
