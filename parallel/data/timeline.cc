#include "parallel/data/timeline.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "base/error.h"

namespace plumbline {
namespace {

constexpr int64_t kMostTime = int64_t{1} << 62;

int64_t Sum(int64_t total, int64_t time) {
  if (time < 0) throw InvalidArgument("a time of {} ns: must be at least 0", time);
  if (time > kMostTime - total) throw InvalidArgument("the times of a step are too large");
  return total + time;
}

bool IsForward(PassKind kind) { return kind == PassKind::kForward; }
bool BringsGradients(PassKind kind) {
  return kind == PassKind::kBackward || kind == PassKind::kBackwardWeight;
}

int64_t Duration(const TimelineUnit& unit, PassKind kind) {
  switch (kind) {
    case PassKind::kForward:
      return unit.forward_ns;
    case PassKind::kBackward:
      return unit.backward_ns;
    case PassKind::kBackwardInput:
      return unit.backward_ns - unit.backward_ns / 2;
    case PassKind::kBackwardWeight:
      return unit.backward_ns / 2;
  }
  throw Internal("a pass of kind {}", static_cast<int>(kind));
}

void CheckTimes(const TimelineInput& input) {
  int64_t total = 0;
  for (const TimelinePass& pass : input.passes) {
    for (const TimelineUnit& unit : input.chunks.at(static_cast<size_t>(pass.chunk)).units) {
      total = Sum(total, Duration(unit, pass.kind));
    }
  }
  for (const TimelineChunk& chunk : input.chunks) {
    for (const TimelineBucket& bucket : chunk.buckets) {
      total = Sum(Sum(total, bucket.reduce_ns), bucket.gather_ns);
      PL_CHECK(bucket.first_unit >= 0);
      PL_CHECK(bucket.first_unit < static_cast<int>(chunk.units.size()));
    }
  }
}

struct BucketId {
  int chunk = 0;
  int bucket = 0;
};

// Runs the passes, and issues and waits for collectives on the way.
class Simulator {
 public:
  Simulator(const TimelineInput& input, const Overlap& overlap)
      : input_(input), overlap_(overlap) {}

  Timeline Run() {
    QueueGathers();
    if (!overlap_.param) {
      while (!to_gather_.empty()) WaitFor(IssueGather());
    } else if (!to_gather_.empty()) {
      IssueGather();
    }
    const std::map<int, size_t> last = LastPasses();
    for (size_t i = 0; i < input_.passes.size(); ++i) {
      const TimelinePass& pass = input_.passes[i];
      const auto found = last.find(pass.chunk);
      RunPass(pass, found != last.end() && found->second == i);
    }
    for (const auto& [bucket, ready] : to_reduce_) WaitFor(IssueReduction(bucket, ready));
    for (size_t reduction : issued_) WaitFor(reduction);
    timeline_.makespan = now_;
    Measure();
    return std::move(timeline_);
  }

 private:
  const TimelineBucket& At(const BucketId& id) const {
    return input_.chunks[static_cast<size_t>(id.chunk)].buckets[static_cast<size_t>(id.bucket)];
  }

  // By chunk: the pass that brings its last gradients.
  std::map<int, size_t> LastPasses() const {
    std::map<int, size_t> last;
    for (size_t i = 0; i < input_.passes.size(); ++i) {
      if (BringsGradients(input_.passes[i].kind)) last[input_.passes[i].chunk] = i;
    }
    return last;
  }

  // In the order of first use: chunk by chunk as the forwards come, and each from the model's
  // start.
  void QueueGathers() {
    std::vector<bool> seen(input_.chunks.size(), false);
    for (const TimelinePass& pass : input_.passes) {
      const auto c = static_cast<size_t>(pass.chunk);
      if (!IsForward(pass.kind) || seen[c]) continue;
      seen[c] = true;
      for (size_t b = input_.chunks[c].buckets.size(); b-- > 0;) {
        const BucketId id = {pass.chunk, static_cast<int>(b)};
        if (At(id).gather_ns > 0) to_gather_.push_back(id);
      }
    }
  }

  size_t Issue(bool gather, const BucketId& id, int64_t ready, int64_t duration) {
    const int64_t start = std::max(now_, stream_free_);
    stream_free_ = start + duration;
    timeline_.collectives.push_back({.gather = gather,
                                     .chunk = id.chunk,
                                     .bucket = id.bucket,
                                     .ready = ready,
                                     .start = start,
                                     .end = stream_free_});
    return timeline_.collectives.size() - 1;
  }
  size_t IssueGather() {
    const BucketId id = to_gather_.front();
    to_gather_.pop_front();
    const size_t collective = Issue(true, id, now_, At(id).gather_ns);
    gathering_.emplace_back(id, collective);
    return collective;
  }
  size_t IssueReduction(const BucketId& id, int64_t ready) {
    return Issue(false, id, ready, At(id).reduce_ns);
  }

  void WaitFor(size_t collective) {
    CollectiveSpan& span = timeline_.collectives[collective];
    if (span.end <= now_) return;
    span.wait += span.end - now_;
    now_ = span.end;
  }

  // A use finishes the bucket's gather and starts the next one.
  void UseWeights(int chunk, int unit) {
    if (!overlap_.param) return;
    while (!gathering_.empty()) {
      const auto [id, collective] = gathering_.front();
      if (id.chunk != chunk || At(id).first_unit > unit) return;
      WaitFor(collective);
      gathering_.pop_front();
      if (!to_gather_.empty()) IssueGather();
    }
  }

  void BringGradients(int chunk, int unit) {
    const std::vector<TimelineBucket>& buckets = input_.chunks[static_cast<size_t>(chunk)].buckets;
    for (size_t b = 0; b < buckets.size(); ++b) {
      if (buckets[b].first_unit != unit || buckets[b].reduce_ns == 0) continue;
      const BucketId id = {chunk, static_cast<int>(b)};
      if (overlap_.grad) {
        issued_.push_back(IssueReduction(id, now_));
      } else {
        to_reduce_.emplace_back(id, now_);
      }
    }
  }

  void RunPass(const TimelinePass& pass, bool last) {
    const std::vector<TimelineUnit>& units = input_.chunks[static_cast<size_t>(pass.chunk)].units;
    for (size_t i = 0; i < units.size(); ++i) {
      const int unit = static_cast<int>(IsForward(pass.kind) ? i : units.size() - 1 - i);
      if (IsForward(pass.kind)) UseWeights(pass.chunk, unit);
      const int64_t duration = Duration(units[static_cast<size_t>(unit)], pass.kind);
      timeline_.compute.push_back({pass, unit, now_, now_ + duration});
      now_ += duration;
      if (last) BringGradients(pass.chunk, unit);
    }
  }

  // Collectives follow each other on their stream, and so do spans of compute.
  void Measure() {
    auto span = timeline_.compute.begin();
    for (const CollectiveSpan& collective : timeline_.collectives) {
      timeline_.communication += collective.end - collective.start;
      while (span != timeline_.compute.end()) {
        const int64_t start = std::max(span->start, collective.start);
        timeline_.overlapped += std::max<int64_t>(0, std::min(span->end, collective.end) - start);
        if (span->end > collective.end) break;  // the next collective may meet it too
        ++span;
      }
    }
  }

  const TimelineInput& input_;
  const Overlap overlap_;
  Timeline timeline_;
  std::deque<BucketId> to_gather_;
  std::deque<std::pair<BucketId, size_t>> gathering_;  // issued, and not used yet
  std::vector<std::pair<BucketId, int64_t>> to_reduce_;
  std::vector<size_t> issued_;
  int64_t now_ = 0;          // of the compute stream
  int64_t stream_free_ = 0;  // of the communication stream
};

}  // namespace

std::string_view Name(PassKind kind) {
  switch (kind) {
    case PassKind::kForward:
      return "forward";
    case PassKind::kBackward:
      return "backward";
    case PassKind::kBackwardInput:
      return "backward_input";
    case PassKind::kBackwardWeight:
      return "backward_weight";
  }
  throw Internal("a pass of kind {}", static_cast<int>(kind));
}

std::string_view Name(const Overlap& overlap) {
  if (overlap.grad) return overlap.param ? "both" : "grad";
  return overlap.param ? "param" : "none";
}

Timeline MakeTimeline(const TimelineInput& input, const Overlap& overlap) {
  CheckTimes(input);
  return Simulator(input, overlap).Run();
}

}  // namespace plumbline
