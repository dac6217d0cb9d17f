#include "fingerprint/matcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "fingerprint/mismatch.h"

namespace plumbline {
namespace {

// Whether every member ends with the same output.
bool Replicates(const CollectiveRecord& record) {
  return record.op == "all_reduce" || record.op == "all_gather" || record.op == "broadcast";
}

bool SameId(const CollectiveRecord& a, const CollectiveRecord& b) {
  return a.op == b.op && SameLogicalId(a, b, SharesMicrobatch(a));
}

}  // namespace

int64_t Matcher::Add(CollectiveRecord record) {
  records_.push_back(std::move(record));
  return static_cast<int64_t>(records_.size()) - 1;
}

bool Matcher::Differs(const MatchSlot& slot, int64_t index) const {
  const CollectiveRecord& call = record(index);
  const CollectiveRecord& first = record(slot.records.front());
  if (CompareCalls(first, call) != MatchState::kMatched) return true;
  if (call.input_splits.empty()) return false;
  // Splits agree pair by pair, so that the first alone can't speak for all.
  return std::any_of(slot.records.begin() + 1, slot.records.end(), [&](int64_t other) {
    return CompareCalls(record(other), call) != MatchState::kMatched;
  });
}

void Matcher::Arrive(MatchSlot& slot, int64_t index) {
  if (!awaiting_.empty()) TakeEvidence(index);
  const bool differs = slot.dispute < 0 && !slot.records.empty() && Differs(slot, index);
  slot.records.push_back(index);
  if (differs) {
    OpenDispute(slot, /*value=*/false);
  } else if (slot.dispute >= 0) {
    disputes_[slot.dispute].records.push_back(index);
  }
  if (slot.dispute >= 0 && slot.records.size() == record(index).members->size()) {
    Resolve(disputes_[slot.dispute]);
  }
}

void Matcher::Meet(int64_t send, int64_t recv) {
  const MatchState state = CompareEnds(record(send), record(recv));
  if (state == MatchState::kMatched || !TakeQuota(record(send))) return;
  std::vector<int> ranks = {record(send).global_rank, record(recv).global_rank};
  std::sort(ranks.begin(), ranks.end());
  findings_.push_back(
      MismatchFinding(state, record(recv), record(send), std::move(ranks), std::string_view()));
}

void Matcher::Complete(MatchSlot* slot, int64_t index, const Checksum& after, int64_t time) {
  CollectiveRecord& call = records_[static_cast<size_t>(index)];
  call.after = after;
  call.completion_time = time;
  if (slot == nullptr || !Replicates(call)) return;
  ++slot->completed;
  if (slot->first_completed < 0) slot->first_completed = index;
  // Calls that differ may well deliver different outputs; that has been told.
  if (slot->dispute < 0) {
    if (record(slot->first_completed).after == after) return;
    OpenDispute(*slot, /*value=*/true);
  }
  Dispute& dispute = disputes_[slot->dispute];
  if (dispute.value && slot->completed == static_cast<int>(call.members->size())) Resolve(dispute);
}

void Matcher::ReportStranger(int64_t index) { findings_.push_back(StrangerFinding(record(index))); }

void Matcher::ReportMissing(int64_t index, const std::vector<int>& ranks) {
  if (TakeQuota(record(index))) findings_.push_back(MissingFinding(record(index), ranks));
}

void Matcher::Settle() {
  for (Dispute& dispute : disputes_) {
    if (dispute.closed) continue;
    if (dispute.deviants.empty()) Resolve(dispute);
    if (!dispute.closed) Conclude(dispute);
  }
  awaiting_.clear();
}

bool Matcher::has_disputes() const {
  return std::any_of(disputes_.begin(), disputes_.end(),
                     [](const Dispute& dispute) { return !dispute.closed; });
}

void Matcher::OpenDispute(MatchSlot& slot, bool value) {
  slot.dispute = static_cast<int>(disputes_.size());
  Dispute& dispute = disputes_.emplace_back();
  dispute.records = slot.records;
  dispute.value = value;
}

// All have arrived, or no more will.
void Matcher::Resolve(Dispute& dispute) {
  TakeSides(dispute);
  const bool resolved = dispute.deviants.empty();  // values, of which one alone has been seen
  if (resolved || (!dispute.value && ReportWrongGroup(dispute))) {
    dispute.closed = true;
    return;
  }
  if (dispute.tie) BreakTie(dispute);
  const MatchState state =
      dispute.value ? MatchState::kValue
                    : CompareCalls(record(dispute.deviants[0]), record(dispute.majority[0]));
  if (state != MatchState::kLogicalId) return Report(dispute, state);
  // Asynchronous ranks may have made their next call already.
  for (int64_t index = dispute.records.front(); index < static_cast<int64_t>(records_.size());
       ++index) {
    NoteNextCall(dispute, index);
  }
  if (dispute.next_deviant >= 0 && dispute.next_majority >= 0) return Conclude(dispute);
  awaiting_.push_back(static_cast<int>(&dispute - disputes_.data()));
}

// Splits the calls into those that agree with the most others, and the rest.
void Matcher::TakeSides(Dispute& dispute) const {
  const auto agree = [&](int64_t a, int64_t b) {
    if (!dispute.value) return CompareCalls(record(a), record(b)) == MatchState::kMatched;
    if (record(a).completion_time < 0 || record(b).completion_time < 0) return true;
    return record(a).after == record(b).after;
  };
  // Representatives suffice, unless splits are involved, where agreeing is not transitive.
  constexpr size_t kMaxSides = 64;
  std::vector<std::vector<int64_t>> sides;
  for (int64_t candidate : dispute.records) {
    const bool covered = std::any_of(sides.begin(), sides.end(),
                                     [&](const auto& side) { return agree(side[0], candidate); });
    if ((covered && record(candidate).input_splits.empty()) || sides.size() == kMaxSides) continue;
    std::vector<int64_t>& side = sides.emplace_back(1, candidate);
    for (int64_t other : dispute.records) {
      if (other != candidate && agree(candidate, other)) side.push_back(other);
    }
  }
  const auto largest = std::max_element(
      sides.begin(), sides.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
  dispute.majority = *largest;
  for (int64_t candidate : dispute.records) {
    if (std::find(largest->begin(), largest->end(), candidate) == largest->end()) {
      dispute.deviants.push_back(candidate);
    }
  }
  dispute.tie = dispute.deviants.size() == dispute.majority.size();
}

// Two equal sides: groups of the same name run the same program, so their calls with the same
// sequence number are heard as witnesses.
void Matcher::BreakTie(Dispute& dispute) const {
  const CollectiveRecord& deviant = record(dispute.deviants[0]);
  const CollectiveRecord& majority = record(dispute.majority[0]);
  int for_deviant = 0;
  int for_majority = 0;
  for (const CollectiveRecord& witness : records_) {
    if (dispute.value || witness.sequence != majority.sequence || witness.op == "send" ||
        witness.op == "recv" || witness.group_hash == majority.group_hash ||
        witness.group_name != majority.group_name ||
        witness.members->size() != majority.members->size()) {
      continue;
    }
    const auto agrees = [&](const CollectiveRecord& side) {
      const MatchState state = CompareCalls(witness, side);
      return state == MatchState::kMatched ||
             (state == MatchState::kLogicalId && SameLogicalId(witness, side, false));
    };
    for_deviant += agrees(deviant) ? 1 : 0;
    for_majority += agrees(majority) ? 1 : 0;
  }
  if (for_deviant == for_majority) return;
  if (for_deviant > for_majority) std::swap(dispute.deviants, dispute.majority);
  dispute.tie = false;
}

// A rank that calls here while its peers wait for the same call on another group.
bool Matcher::ReportWrongGroup(const Dispute& dispute) {
  if (SameId(record(dispute.deviants[0]), record(dispute.majority[0]))) return false;
  for (int64_t index : dispute.records) {
    const CollectiveRecord* owed = OwedInstead(record(index), records_);
    if (owed == nullptr) continue;
    if (TakeQuota(record(index))) {
      findings_.push_back(MismatchFinding(MatchState::kMembership, record(index), *owed,
                                          {record(index).global_rank}, std::string_view()));
    }
    return true;
  }
  return false;
}

void Matcher::NoteNextCall(Dispute& dispute, int64_t index) const {
  const CollectiveRecord& call = record(index);
  const CollectiveRecord& deviant = record(dispute.deviants[0]);
  const CollectiveRecord& majority = record(dispute.majority[0]);
  const bool message = call.op == "send" || call.op == "recv";
  if (message || call.group_hash != deviant.group_hash || call.sequence != deviant.sequence + 1) {
    return;
  }
  if (call.global_rank == deviant.global_rank) dispute.next_deviant = index;
  if (call.global_rank == majority.global_rank) dispute.next_majority = index;
}

void Matcher::TakeEvidence(int64_t index) {
  for (size_t i = 0; i < awaiting_.size();) {
    Dispute& dispute = disputes_[awaiting_[i]];
    NoteNextCall(dispute, index);
    if (dispute.next_deviant >= 0 && dispute.next_majority >= 0) {
      awaiting_.erase(awaiting_.begin() + static_cast<std::ptrdiff_t>(i));
      Conclude(dispute);
    } else {
      ++i;
    }
  }
}

// The deviants said B where the others said A. Their next calls tell what happened.
void Matcher::Conclude(Dispute& dispute) {
  const auto next_is = [&](int64_t next, int64_t call) {
    return next >= 0 && SameId(record(next), record(call));
  };
  const bool others_follow = next_is(dispute.next_majority, dispute.deviants[0]);
  const bool deviants_follow = next_is(dispute.next_deviant, dispute.majority[0]);
  if (others_follow && deviants_follow) return Report(dispute, MatchState::kOrder);
  if (others_follow) {
    dispute.tie = false;
    return Report(dispute, MatchState::kMissing);
  }
  if (deviants_follow) {
    // The deviants make one call more. Of two equal sides it may as well be the other that skips.
    if (dispute.tie) {
      std::swap(dispute.deviants, dispute.majority);
      dispute.tie = false;
    }
    return Report(dispute, MatchState::kMissing);
  }
  Report(dispute, MatchState::kLogicalId);
}

void Matcher::Report(Dispute& dispute, MatchState state) {
  dispute.closed = true;
  const CollectiveRecord& deviant = record(dispute.deviants[0]);
  const CollectiveRecord& majority = record(dispute.majority[0]);
  if (!TakeQuota(majority)) return;
  std::vector<int> ranks;
  for (int64_t index : dispute.deviants) ranks.push_back(record(index).global_rank);
  if (dispute.tie) {
    for (int64_t index : dispute.majority) ranks.push_back(record(index).global_rank);
  }
  std::sort(ranks.begin(), ranks.end());
  std::string note;
  if (state == MatchState::kOrder) {
    note =
        fmt::format("rank {} makes that call at seq {}", deviant.global_rank, deviant.sequence + 1);
  } else if (state == MatchState::kMissing) {
    note = fmt::format("one of the two calls is never made by the other side");
  }
  findings_.push_back(MismatchFinding(state, deviant, majority, std::move(ranks), note));
}

bool Matcher::TakeQuota(const CollectiveRecord& record) {
  return ++findings_of_group_[record.group_hash] <= kMaxFindingsPerGroup;
}

}  // namespace plumbline
