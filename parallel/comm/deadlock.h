// Says who waits for whom when no rank can run.
#ifndef PLUMBLINE_PARALLEL_COMM_DEADLOCK_H_
#define PLUMBLINE_PARALLEL_COMM_DEADLOCK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/finding.h"
#include "base/site.h"

namespace plumbline {

// One collective or message at which ranks are blocked.
struct WaitPoint {
  std::string what;   // "all_reduce sum f32[4] tp{0,1} seq 3 step 1 forward x value"
  std::string group;  // "tp{0,1}"
  Site site;
  int64_t since = 0;         // when the first of them called
  std::vector<int> blocked;  // ascending
  std::vector<int> missing;  // ranks that have not made the matching call, ascending
  bool unfit = false;        // all have called, but the calls don't fit together
};

struct StuckWorld {
  int ranks = 0;
  std::vector<char> ended;  // by rank
  std::vector<WaitPoint> points;
};

// `ranks` of the finding are those whose absence started it: ranks that have ended although others
// wait for them; else, in a cycle, the ones missing at the point where the first waiter stands. The
// message names every blocked rank, line by line.
Finding DeadlockFinding(const StuckWorld& world);

// "0-2,5"
std::string RankList(const std::vector<int>& ascending);

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_COMM_DEADLOCK_H_
