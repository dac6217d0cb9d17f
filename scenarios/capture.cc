#include "scenarios/capture.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace plumbline {
namespace {

// Layer and chunk say where a site is computed, not which it is.
bool SameSite(const Site& a, const Site& b) {
  return a.step == b.step && a.microbatch == b.microbatch && a.phase == b.phase &&
         a.quantity == b.quantity && a.tensor == b.tensor;
}

}  // namespace

class Capture::RankProbe : public Probe {
 public:
  RankProbe(Capture& capture, int rank) : capture_(capture), rank_(rank) {}
  void Observe(const Site& site, const ObservedLayout& layout, const Tensor& local) override {
    if (!SameSite(site, capture_.site_)) return;
    capture_.tensors_.push_back({rank_, layout, local.Clone(Context{})});
  }
  void ObserveCounter(const Site& /*site*/, int64_t /*value*/) override {}

 private:
  Capture& capture_;
  int rank_;
};

class Capture::Watcher : public CommunicatorDecorator {
 public:
  Watcher(Capture& capture, Communicator& inner)
      : CommunicatorDecorator(inner), capture_(capture) {}
  std::shared_ptr<Work> Issue(const CollectiveCall& call) override {
    if (SameSite(call.site, capture_.site_)) {
      CapturedCall captured;
      captured.rank = global_rank();
      captured.number = number_++;
      captured.op = call.op;
      captured.reduce_op = call.reduce_op;
      captured.group = call.group;
      if (call.input.defined()) captured.input = call.input.Clone(Context{});
      capture_.calls_.push_back(std::move(captured));
    }
    return CommunicatorDecorator::Issue(call);
  }

 private:
  Capture& capture_;
  int64_t number_ = 0;
};

Probe& Capture::ProbeOf(int global_rank) {
  const auto index = static_cast<size_t>(global_rank);
  if (probes_.size() <= index) probes_.resize(index + 1);
  if (probes_[index] == nullptr) probes_[index] = std::make_unique<RankProbe>(*this, global_rank);
  return *probes_[index];
}

std::unique_ptr<Communicator> Capture::Watch(Communicator& inner) {
  return std::make_unique<Watcher>(*this, inner);
}

std::vector<CapturedTensor> Capture::TakeTensors() {
  std::stable_sort(
      tensors_.begin(), tensors_.end(),
      [](const CapturedTensor& a, const CapturedTensor& b) { return a.rank < b.rank; });
  return std::move(tensors_);
}

std::vector<CapturedCall> Capture::TakeCalls() {
  std::stable_sort(calls_.begin(), calls_.end(), [](const CapturedCall& a, const CapturedCall& b) {
    return std::tuple(a.number, a.rank) < std::tuple(b.number, b.rank);
  });
  return std::move(calls_);
}

}  // namespace plumbline
