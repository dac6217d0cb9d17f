// The findings that tell of calls which don't fit together.
#ifndef PLUMBLINE_FINGERPRINT_MISMATCH_H_
#define PLUMBLINE_FINGERPRINT_MISMATCH_H_

#include <span>
#include <string_view>
#include <vector>

#include "base/finding.h"
#include "fingerprint/compare_calls.h"
#include "fingerprint/record.h"

namespace plumbline {

// `actual` is what one of `ranks` says, `reference` what its peers say. The site is the peers':
// where the program should have been.
Finding MismatchFinding(MatchState state, const CollectiveRecord& actual,
                        const CollectiveRecord& reference, std::vector<int> ranks,
                        std::string_view note);

// A call of a rank that is not in the group.
Finding StrangerFinding(const CollectiveRecord& record);

// A call that `ranks` never made.
Finding MissingFinding(const CollectiveRecord& record, std::vector<int> ranks);

// The call that `record`'s rank owes its peers: an incomplete one of the same operation on the same
// logical tensor, on another group that holds this rank. nullptr when there is none.
const CollectiveRecord* OwedInstead(const CollectiveRecord& record,
                                    std::span<const CollectiveRecord> all);

// What the calls say that wait when no rank can run: calls on the wrong group, and messages whose
// ends name different peers or tags. Empty when nothing but the waiting itself is wrong.
std::vector<Finding> ExplainWaiting(std::span<const CollectiveRecord* const> waiting,
                                    std::span<const CollectiveRecord> all);

}  // namespace plumbline

#endif  // PLUMBLINE_FINGERPRINT_MISMATCH_H_
