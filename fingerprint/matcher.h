// Matches what the ranks of a group say about each collective, call by call, and explains the
// first difference.
//
// Calls of one group match by their sequence number. A difference is noticed at issue; it is
// reported when all members have said what they call, because only then the majority is known, and
// a pure difference of the logical id one call later, because only the next call tells a swapped
// order from a skipped call. Settle reports what the run's end or a deadlock has left open.
//
// Errors:   none; what the ranks disagree about is a Finding.
#ifndef PLUMBLINE_FINGERPRINT_MATCHER_H_
#define PLUMBLINE_FINGERPRINT_MATCHER_H_

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/finding.h"
#include "fingerprint/compare_calls.h"
#include "fingerprint/record.h"

namespace plumbline {

// The calls of one group with one sequence number. Kept by the caller, beside its own state of the
// collective.
struct MatchSlot {
  std::vector<int64_t> records;  // indices, in order of arrival
  int dispute = -1;              // which of the matcher's, -1: none
  int64_t first_completed = -1;
  int completed = 0;
};

class Matcher {
 public:
  // Findings reported of one group: a single skipped call sets all later ones apart.
  static constexpr int kMaxFindingsPerGroup = 16;

  // Adds a call and returns its index.
  int64_t Add(CollectiveRecord record);
  const CollectiveRecord& record(int64_t index) const {
    return records_[static_cast<size_t>(index)];
  }

  // Adds the input's checksum, when it was not known at Add.
  void SetBefore(int64_t index, const Checksum& before) {
    records_[static_cast<size_t>(index)].before = before;
  }

  // Record `index` is a member's call of the slot.
  void Arrive(MatchSlot& slot, int64_t index);
  // The two ends of a message have met.
  void Meet(int64_t send, int64_t recv);
  // The call has delivered its output; `slot` is nullptr for a message.
  void Complete(MatchSlot* slot, int64_t index, const Checksum& after, int64_t time);
  // The rank is not a member of the group that it calls on.
  void ReportStranger(int64_t index);
  // These ranks never made the call, and the run is over.
  void ReportMissing(int64_t index, const std::vector<int>& ranks);
  // No further evidence will come: the run is over, or no rank can run.
  void Settle();

  bool has_disputes() const;  // differences noticed and not yet reported
  bool has_findings() const { return !findings_.empty(); }
  std::vector<Finding> TakeFindings() { return std::exchange(findings_, {}); }
  const std::vector<CollectiveRecord>& records() const { return records_; }
  std::vector<CollectiveRecord> TakeRecords() { return std::exchange(records_, {}); }

 private:
  // A difference that has been noticed and not yet been reported.
  struct Dispute {
    std::vector<int64_t> records;   // the calls so far
    bool value = false;             // about outputs, not calls
    bool closed = false;            // reported, or given up
    std::vector<int64_t> deviants;  // set when all have arrived
    std::vector<int64_t> majority;
    bool tie = false;
    int64_t next_deviant = -1;  // the following call on the same group, of one of each side
    int64_t next_majority = -1;
  };

  bool Differs(const MatchSlot& slot, int64_t index) const;
  void OpenDispute(MatchSlot& slot, bool value);
  void Resolve(Dispute& dispute);
  void TakeSides(Dispute& dispute) const;
  void BreakTie(Dispute& dispute) const;
  bool ReportWrongGroup(const Dispute& dispute);
  void NoteNextCall(Dispute& dispute, int64_t index) const;
  void TakeEvidence(int64_t index);
  void Conclude(Dispute& dispute);
  void Report(Dispute& dispute, MatchState state);
  bool TakeQuota(const CollectiveRecord& record);

  std::vector<CollectiveRecord> records_;
  std::vector<Finding> findings_;
  std::vector<Dispute> disputes_;
  std::vector<int> awaiting_;  // disputes that wait for the next call
  std::unordered_map<uint64_t, int> findings_of_group_;
};

}  // namespace plumbline

#endif  // PLUMBLINE_FINGERPRINT_MATCHER_H_
