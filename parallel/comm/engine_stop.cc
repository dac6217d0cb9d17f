// The engine's ways to stop, and what it then has to say.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "fingerprint/mismatch.h"
#include "parallel/comm/engine.h"

namespace plumbline {
namespace {

// Calls answered with Aborted before a rank that goes on is evicted, and before it is abandoned.
constexpr int kPatience = 100;
constexpr int kLastPatience = 20000;

}  // namespace

bool Engine::Refuse(int global_rank) {
  RankState& rank = ranks_[global_rank];
  if (++rank.refusals > kLastPatience) scheduler_.Abandon();
  // In a destructor during unwinding: to throw would end the process.
  if (std::uncaught_exceptions() > 0) return true;
  if (rank.refusals > kPatience) throw Eviction();
  throw Aborted("rank {}: the world has stopped: {}", global_rank, stop_reason_);
}

bool Engine::CollectFindings() {
  if (!matcher_.has_findings()) return false;
  std::vector<Finding> fresh = matcher_.TakeFindings();
  const bool stop = options_.on_mismatch == OnMismatch::kStop;
  if (stop) Stop(fresh.front().message);
  std::move(fresh.begin(), fresh.end(), std::back_inserter(findings_));
  return stop;
}

void Engine::Stop(std::string reason) {
  if (stopped_) return;
  stopped_ = true;
  stop_reason_ = std::move(reason);
  // Before their ranks unwind, the records of calls that hang are completed.
  for (PendingCall* call = first_pending_; call != nullptr; call = call->next) {
    const bool due = call->before_due && call->delivery == Delivery::kNone && call->record >= 0;
    if (due) matcher_.SetBefore(call->record, ChecksumOf(call->input));
  }
  for (int rank = 0; rank < options_.size; ++rank) scheduler_.Unblock(rank);
}

void Engine::OnException(std::exception_ptr exception) {
  if (stopped_) return;  // a consequence
  if (options_.on_mismatch == OnMismatch::kStop && matcher_.has_disputes()) {
    // The ranks had already parted: that comes first.
    matcher_.Settle();
    if (CollectFindings()) return;
  }
  exception_ = std::move(exception);
  Stop("a rank has failed");
}

void Engine::OnStuck() {
  if (options_.fingerprint) {
    matcher_.Settle();
    if (CollectFindings()) return;
  }
  ReportDeadlock();
}

std::vector<PendingCall*> Engine::InOrderOfIssue() const {
  std::vector<PendingCall*> calls;
  for (PendingCall* call = first_pending_; call != nullptr; call = call->next) {
    calls.push_back(call);
  }
  std::reverse(calls.begin(), calls.end());
  return calls;
}

void Engine::ReportDeadlock() {
  if (options_.fingerprint) {
    std::vector<const CollectiveRecord*> waiting;
    for (const PendingCall* call : InOrderOfIssue()) {
      const bool waits = call->delivery == Delivery::kNone && call->record >= 0;
      if (waits && !call->unfit) waiting.push_back(&matcher_.record(call->record));
    }
    std::vector<Finding> explained = ExplainWaiting(waiting, matcher_.records());
    std::move(explained.begin(), explained.end(), std::back_inserter(findings_));
  }
  findings_.push_back(DeadlockFinding(DescribeStuck()));
  Stop("deadlock");
}

WaitPoint Engine::DescribeWait(const PendingCall& call) const {
  WaitPoint point;
  const CollectiveRecord record = MakeRecord(call);
  point.group = GroupText(record);
  point.what = fmt::format("{} {} seq {}", CallText(record), point.group, call.sequence);
  point.site = call.site;
  point.since = call.issue_time;
  point.unfit = call.unfit;
  if (call.unfit) return point;
  const std::vector<int>& members = *call.group->members;
  if (call.collective == nullptr) {
    point.missing = {members[static_cast<size_t>(call.peer)]};
    return point;
  }
  for (size_t p = 0; p < members.size(); ++p) {
    const auto& arrived = call.collective->calls[p];
    if (arrived == nullptr) {
      point.missing.push_back(members[p]);
    } else if (arrived->issue_time < point.since) {
      point.since = arrived->issue_time;
      point.site = arrived->site;
    }
  }
  std::sort(point.missing.begin(), point.missing.end());
  return point;
}

StuckWorld Engine::DescribeStuck() const {
  StuckWorld world;
  world.ranks = options_.size;
  std::unordered_map<const Collective*, size_t> point_of;
  for (int rank = 0; rank < options_.size; ++rank) {
    world.ended.push_back(scheduler_.ended(rank) ? 1 : 0);
    const PendingCall* call = ranks_[rank].waiting_on;
    if (call == nullptr) continue;
    if (call->collective != nullptr) {
      const auto [known, fresh] = point_of.try_emplace(call->collective.get(), world.points.size());
      if (!fresh) {
        world.points[known->second].blocked.push_back(rank);
        continue;
      }
    }
    world.points.push_back(DescribeWait(*call));
    world.points.back().blocked = {rank};
  }
  return world;
}

// All ranks have returned: calls that were never matched, and payloads that changed although
// nobody has waited.
void Engine::ReportLeftovers() {
  std::vector<const Collective*> told;
  for (PendingCall* call : InOrderOfIssue()) {
    CheckChanged(*call);
    if (call->record < 0 || call->delivery != Delivery::kNone || call->unfit) continue;
    const Collective* collective = call->collective.get();
    if (collective != nullptr && std::find(told.begin(), told.end(), collective) != told.end()) {
      continue;
    }
    told.push_back(collective);
    matcher_.ReportMissing(call->record, DescribeWait(*call).missing);
  }
  std::vector<Finding> fresh = matcher_.TakeFindings();
  std::move(fresh.begin(), fresh.end(), std::back_inserter(findings_));
}

void Engine::Finish() {
  completed_ = !stopped_;
  if (stopped_) return;
  if (options_.fingerprint) {
    matcher_.Settle();
    std::vector<Finding> fresh = matcher_.TakeFindings();
    std::move(fresh.begin(), fresh.end(), std::back_inserter(findings_));
  }
  ReportLeftovers();
}

}  // namespace plumbline
