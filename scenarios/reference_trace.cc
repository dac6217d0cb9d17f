#include "scenarios/reference_trace.h"

#include <utility>

#include "base/compare.h"
#include "base/error.h"

namespace plumbline {
namespace {

// The tensor's name says the layer, and the chunk is where the parallel program computed it:
// neither tells sites apart.
Site KeyOf(const Site& site) {
  Site key = site;
  key.layer = -1;
  key.chunk = -1;
  return key;
}

}  // namespace

bool HasMainParams(const RunConfig& config) {
  return config.parallel.data.use_distributed_optimizer() || config.main_dtype() != config.dtype;
}

ReferenceTrace::ReferenceTrace(const TrainConfig& train, Options options)
    : options_(std::move(options)), exemption_rule_(train), update_bounds_(train) {}

void ReferenceTrace::Record(const Site& site, Tensor global) {
  ReferenceEntry entry;
  entry.site = site;
  entry.shape = global.shape();
  entry.elements = global.elements();
  entry.tensor = global.Contiguous(Context{});
  entry.max_abs = IsExact(entry.tensor.dtype()) ? 1 : MaxAbs(entry.tensor);
  if (options_.noise_floor != nullptr) {
    FollowUpdates(entry);
  } else {
    FollowRounding(entry);
  }
  if (options_.main_params && site.quantity == Quantity::kParameter && site.phase == Phase::kStep) {
    ReferenceEntry master = entry;
    master.site.quantity = Quantity::kMainParam;
    Keep(std::move(master));
  }
  Keep(std::move(entry));
}

// What Adam makes of f64's rounding.
void ReferenceTrace::FollowRounding(ReferenceEntry& entry) {
  const Site& site = entry.site;
  if (site.quantity == Quantity::kMainGrad) {
    exemption_rule_.AddGradient(site.tensor, entry.tensor);
  }
  if (site.tensor == "clip_coefficient" && !IsExact(entry.tensor.dtype())) {
    exemption_rule_.SetClipCoefficient(*entry.tensor.data<double>());
  }
  if (site.quantity == Quantity::kParameter && site.phase == Phase::kStep) {
    entry.exemption = exemption_rule_.AfterUpdate(site.tensor);
  }
  if (site.phase == Phase::kForward) {
    entry.exemption = exemption_rule_.OfActivation(site.tensor, entry.shape);
  }
}

// What the optimizer makes of gradients in low precision.
void ReferenceTrace::FollowUpdates(ReferenceEntry& entry) {
  const Site& site = entry.site;
  const double bound = options_.noise_floor->BoundOf(site);
  if (site.quantity == Quantity::kMainGrad) {
    update_bounds_.AddGradient(site.tensor, entry.tensor, bound);
  } else if (site.tensor == "clip_coefficient") {
    update_bounds_.SetClipCoefficient(*entry.tensor.data<double>(), bound);
  } else if (site.phase == Phase::kStep) {
    entry.allowance = update_bounds_.Of(site.tensor, site.quantity);
  }
}

void ReferenceTrace::Keep(ReferenceEntry entry) {
  if (options_.keep && !options_.keep(entry.site)) entry.tensor = Tensor();
  Append(std::move(entry));
}

void ReferenceTrace::RecordCounter(const Site& site, int64_t value) {
  ReferenceEntry entry;
  entry.site = site;
  entry.counter = value;
  Append(std::move(entry));
}

void ReferenceTrace::Append(ReferenceEntry entry) {
  std::vector<Tensor> retired;  // freed outside the lock
  const auto bytes =
      entry.tensor.defined() ? static_cast<int64_t>(entry.tensor.bytes()) : int64_t{0};
  std::unique_lock<std::mutex> lock(mutex_);
  WaitForReader(lock, bytes);
  if (cancelled_) throw Aborted("the reference is no longer needed");
  retired.swap(retired_);
  entry.ordinal = static_cast<int64_t>(entries_.size());
  entries_.push_back(std::move(entry));
  ReferenceEntry& added = entries_.back();
  if (!by_site_.emplace(KeyOf(added.site), &added).second) {
    throw Internal("the reference records {} twice", ToString(added.site));
  }
  bytes_held_ += bytes;
  if (reader_waits_) recorded_.notify_one();
}

// A waiting reader always gets its way: what it waits for may be the very next entry.
void ReferenceTrace::WaitForReader(std::unique_lock<std::mutex>& lock, int64_t bytes) {
  dropped_.wait(lock, [&] {
    return cancelled_ || reader_waits_ || bytes_held_ == 0 ||
           bytes_held_ + bytes <= options_.max_bytes_ahead;
  });
}

void ReferenceTrace::Finish() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ended_ = true;
  recorded_.notify_all();
}

void ReferenceTrace::Fail(std::exception_ptr error) {
  const std::lock_guard<std::mutex> lock(mutex_);
  error_ = std::move(error);
  ended_ = true;
  recorded_.notify_all();
}

const ReferenceEntry* ReferenceTrace::Find(const Site& site) {
  std::unique_lock<std::mutex> lock(mutex_);
  const Site key = KeyOf(site);
  const ReferenceEntry* entry = nullptr;
  const auto look = [&] {
    const auto found = by_site_.find(key);
    if (found != by_site_.end()) entry = found->second;
    return entry != nullptr || ended_;
  };
  if (!look()) {
    reader_waits_ = true;
    dropped_.notify_one();
    recorded_.wait(lock, look);
    reader_waits_ = false;
  }
  if (entry == nullptr && error_ != nullptr) std::rethrow_exception(error_);
  return entry;
}

void ReferenceTrace::Drop(const ReferenceEntry& entry) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ReferenceEntry& held = entries_[static_cast<size_t>(entry.ordinal)];
  held.exemption = {};
  held.allowance = nullptr;
  Tensor& tensor = held.tensor;
  if (!tensor.defined()) return;
  bytes_held_ -= static_cast<int64_t>(tensor.bytes());
  retired_.push_back(std::move(tensor));
  tensor = Tensor();
  dropped_.notify_one();
}

void ReferenceTrace::Cancel() {
  const std::lock_guard<std::mutex> lock(mutex_);
  cancelled_ = true;
  dropped_.notify_all();
}

int64_t ReferenceTrace::PlaceOf(const Site& site) const {
  const auto exact = by_site_.find(KeyOf(site));
  if (exact != by_site_.end()) return exact->second->ordinal;
  int64_t same_phase = -1;
  for (const ReferenceEntry& entry : entries_) {
    const Site& other = entry.site;
    const bool near =
        other.step == site.step && other.microbatch == site.microbatch && other.phase == site.phase;
    if (!near) continue;
    if (other.tensor == site.tensor) return entry.ordinal;
    if (same_phase < 0) same_phase = entry.ordinal;
  }
  return same_phase >= 0 ? same_phase : static_cast<int64_t>(entries_.size());
}

}  // namespace plumbline
