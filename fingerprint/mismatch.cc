#include "fingerprint/mismatch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>

namespace plumbline {
namespace {

// "op differs": how a message names the state.
std::string_view Phrase(MatchState state) {
  switch (state) {
    case MatchState::kType:
      return "op differs";
    case MatchState::kSize:
      return "size differs";
    case MatchState::kSplit:
      return "split differs";
    case MatchState::kDType:
      return "dtype differs";
    case MatchState::kReduceOp:
      return "redop differs";
    case MatchState::kRoot:
      return "root differs";
    case MatchState::kPeerTag:
      return "peer/tag differs";
    case MatchState::kMembership:
      return "membership differs";
    case MatchState::kOrder:
      return "order differs";
    case MatchState::kMissing:
      return "missing";
    case MatchState::kLogicalId:
      return "logical id differs";
    case MatchState::kValue:
      return "value differs";
    case MatchState::kMatched:
    case MatchState::kDeadlock:
      break;
  }
  return Name(state);
}

std::string Side(MatchState state, const CollectiveRecord& record) {
  std::string text = CallText(record);
  if (state == MatchState::kMembership) text += " on " + GroupText(record);
  if (state == MatchState::kValue) text += " output " + ToString(record.after);
  return text;
}

bool Contains(const CollectiveRecord& group_of, int rank) {
  const std::vector<int>& members = *group_of.members;
  return std::find(members.begin(), members.end(), rank) != members.end();
}

// Whether `rank` has made its call of the collective that `record` belongs to.
bool HasArrived(const CollectiveRecord& record, int rank, std::span<const CollectiveRecord> all) {
  return std::any_of(all.rbegin(), all.rend(), [&](const CollectiveRecord& other) {
    return other.global_rank == rank && other.group_hash == record.group_hash &&
           other.sequence == record.sequence && other.op != "send" && other.op != "recv";
  });
}

// Whether another rank makes the same call at the same place of a group of this name: then the
// program means it so.
bool HasWitness(const CollectiveRecord& record, std::span<const CollectiveRecord> all) {
  return std::any_of(all.begin(), all.end(), [&](const CollectiveRecord& other) {
    return other.global_rank != record.global_rank && other.sequence == record.sequence &&
           other.op == record.op && other.group_name == record.group_name &&
           SameLogicalId(other, record, false);
  });
}

bool IsMessage(const CollectiveRecord& record) {
  return record.op == "send" || record.op == "recv";
}

int GlobalPeer(const CollectiveRecord& record) { return (*record.members)[record.peer]; }

// A receive that was meant for `send`: the destination waits for this source under another tag, or
// for the same tensor from elsewhere.
bool MeantFor(const CollectiveRecord& send, const CollectiveRecord& recv) {
  if (recv.op != "recv" || recv.global_rank != GlobalPeer(send)) return false;
  if (GlobalPeer(recv) == send.global_rank && recv.group_hash == send.group_hash) {
    return recv.tag != send.tag;
  }
  return !send.site.tensor.empty() && SameLogicalId(send, recv, true);
}

void ExplainMessages(std::span<const CollectiveRecord* const> waiting,
                     std::vector<Finding>& findings) {
  std::vector<const CollectiveRecord*> used;
  for (const CollectiveRecord* send : waiting) {
    if (send->op != "send") continue;
    const auto recv = std::find_if(waiting.begin(), waiting.end(), [&](const auto* candidate) {
      return MeantFor(*send, *candidate) &&
             std::find(used.begin(), used.end(), candidate) == used.end();
    });
    if (recv == waiting.end()) continue;
    used.push_back(*recv);
    std::vector<int> ranks = {send->global_rank, (*recv)->global_rank};
    std::sort(ranks.begin(), ranks.end());
    findings.push_back(
        MismatchFinding(MatchState::kPeerTag, **recv, *send, std::move(ranks), std::string_view()));
  }
}

}  // namespace

Finding MismatchFinding(MatchState state, const CollectiveRecord& actual,
                        const CollectiveRecord& reference, std::vector<int> ranks,
                        std::string_view note) {
  Finding finding;
  finding.kind = FindingClass::kCollectiveMismatch;
  finding.site = reference.site;
  finding.ranks = std::move(ranks);
  finding.group = GroupText(reference);
  finding.actual = Side(state, actual);
  finding.reference = Side(state, reference);
  finding.message = fmt::format("{}; rank {}: {} ({}{}{})", ToString(actual), reference.global_rank,
                                finding.reference, Phrase(state), note.empty() ? "" : ": ", note);
  return finding;
}

Finding StrangerFinding(const CollectiveRecord& record) {
  Finding finding;
  finding.kind = FindingClass::kCollectiveMismatch;
  finding.site = record.site;
  finding.ranks = {record.global_rank};
  finding.group = GroupText(record);
  finding.actual = fmt::format("rank {} calls on {}", record.global_rank, finding.group);
  finding.reference = fmt::format("members {}", fmt::join(*record.members, ","));
  finding.message = fmt::format("{}; rank {} is not a member ({})", ToString(record),
                                record.global_rank, Phrase(MatchState::kMembership));
  return finding;
}

Finding MissingFinding(const CollectiveRecord& record, std::vector<int> ranks) {
  Finding finding;
  finding.kind = FindingClass::kCollectiveMismatch;
  finding.site = record.site;
  finding.group = GroupText(record);
  finding.actual = "no call";
  finding.reference = CallText(record);
  finding.message = fmt::format("{}; rank {}: no such call ({})", ToString(record),
                                fmt::join(ranks, ","), Phrase(MatchState::kMissing));
  finding.ranks = std::move(ranks);
  return finding;
}

const CollectiveRecord* OwedInstead(const CollectiveRecord& record,
                                    std::span<const CollectiveRecord> all) {
  if (record.site.tensor.empty() || IsMessage(record) || HasWitness(record, all)) return nullptr;
  for (const CollectiveRecord& other : all) {
    const bool candidate = other.completion_time < 0 && other.op == record.op &&
                           other.group_hash != record.group_hash &&
                           other.global_rank != record.global_rank &&
                           Contains(other, record.global_rank) &&
                           SameLogicalId(other, record, SharesMicrobatch(other));
    if (candidate && !HasArrived(other, record.global_rank, all)) return &other;
  }
  return nullptr;
}

std::vector<Finding> ExplainWaiting(std::span<const CollectiveRecord* const> waiting,
                                    std::span<const CollectiveRecord> all) {
  std::vector<Finding> findings;
  for (const CollectiveRecord* record : waiting) {
    const CollectiveRecord* owed = OwedInstead(*record, all);
    if (owed == nullptr) continue;
    findings.push_back(MismatchFinding(MatchState::kMembership, *record, *owed,
                                       {record->global_rank}, std::string_view()));
  }
  ExplainMessages(waiting, findings);
  return findings;
}

}  // namespace plumbline
