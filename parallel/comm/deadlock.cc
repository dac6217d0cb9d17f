#include "parallel/comm/deadlock.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>

#include "base/error.h"

namespace plumbline {
namespace {

// Who waits where, and the search over it.
class WaitGraph {
 public:
  explicit WaitGraph(const StuckWorld& world) : world_(world), point_of_(world.ranks, -1) {
    for (size_t p = 0; p < world.points.size(); ++p) {
      for (int rank : world.points[p].blocked) point_of_[rank] = static_cast<int>(p);
    }
  }

  int point_of(int rank) const { return point_of_[rank]; }

  // Points that a point depends on, itself first.
  std::vector<int> Reach(int start) const {
    std::vector<char> seen(world_.points.size(), 0);
    std::vector<int> order = {start};
    seen[start] = 1;
    for (size_t i = 0; i < order.size(); ++i) {
      for (int rank : world_.points[order[i]].missing) {
        const int next = point_of_[rank];
        if (next < 0 || seen[next] != 0) continue;
        seen[next] = 1;
        order.push_back(next);
      }
    }
    return order;
  }

  // Ranks of a shortest cycle through `start`, each waiting for the next; empty when there is none.
  std::vector<int> CycleThrough(int start) const {
    std::vector<int> from(world_.points.size(), -1);  // the missing rank that led to a point
    std::vector<int> via(world_.points.size(), -1);   // the point before
    std::vector<int> order = {start};
    for (size_t i = 0; i < order.size(); ++i) {
      for (int rank : world_.points[order[i]].missing) {
        const int next = point_of_[rank];
        if (next == start) return Unwind(start, order[i], rank, from, via);
        if (next < 0 || from[next] >= 0) continue;
        from[next] = rank;
        via[next] = order[i];
        order.push_back(next);
      }
    }
    return {};
  }

 private:
  // `last`, a missing rank at `point`, is blocked at `start` again.
  static std::vector<int> Unwind(int start, int point, int last, const std::vector<int>& from,
                                 const std::vector<int>& via) {
    std::vector<int> ranks = {last};
    for (int p = point; p != start; p = via[p]) ranks.push_back(from[p]);
    std::reverse(ranks.begin() + 1, ranks.end());
    return ranks;
  }

  const StuckWorld& world_;
  std::vector<int> point_of_;
};

std::string MissingText(const WaitPoint& point, const StuckWorld& world, const WaitGraph& graph) {
  if (point.unfit) return "all have called, but the calls don't fit together";
  std::vector<int> ended;
  std::vector<std::pair<int, std::vector<int>>> elsewhere;  // by point
  for (int rank : point.missing) {
    const int at = graph.point_of(rank);
    if (world.ended[rank] != 0 || at < 0) {
      ended.push_back(rank);
      continue;
    }
    const auto known = std::find_if(elsewhere.begin(), elsewhere.end(),
                                    [&](const auto& entry) { return entry.first == at; });
    if (known == elsewhere.end()) {
      elsewhere.push_back({at, {rank}});
    } else {
      known->second.push_back(rank);
    }
  }
  std::string text = "missing";
  if (!ended.empty()) text += fmt::format(" rank {} (has ended)", RankList(ended));
  for (const auto& [at, ranks] : elsewhere) {
    text += fmt::format("{} rank {} (blocked in {})", text == "missing" ? "" : ",", RankList(ranks),
                        world.points[at].what);
  }
  return text;
}

// The point that started it, and the ranks to blame.
struct Root {
  int point;
  std::vector<int> ranks;
};

Root FindRoot(const StuckWorld& world, const WaitGraph& graph, int earliest) {
  std::vector<int> reach = graph.Reach(earliest);
  std::sort(reach.begin(), reach.end(),
            [&](int a, int b) { return world.points[a].since < world.points[b].since; });
  for (int p : reach) {
    std::vector<int> ended;
    for (int rank : world.points[p].missing) {
      if (world.ended[rank] != 0) ended.push_back(rank);
    }
    if (!ended.empty()) return {p, ended};
  }
  for (int p : reach) {
    if (world.points[p].unfit) return {p, world.points[p].blocked};
  }
  for (int p : reach) {
    if (!graph.CycleThrough(p).empty()) return {p, world.points[p].missing};
  }
  return {earliest, world.points[earliest].missing};
}

}  // namespace

std::string RankList(const std::vector<int>& ascending) {
  fmt::memory_buffer text;
  auto out = std::back_inserter(text);
  for (size_t i = 0; i < ascending.size();) {
    size_t end = i + 1;
    while (end < ascending.size() && ascending[end] == ascending[end - 1] + 1) ++end;
    if (i > 0) fmt::format_to(out, ",");
    fmt::format_to(out, "{}", ascending[i]);
    if (end - i > 1) fmt::format_to(out, "-{}", ascending[end - 1]);
    i = end;
  }
  return fmt::to_string(text);
}

Finding DeadlockFinding(const StuckWorld& world) {
  PL_CHECK(!world.points.empty());
  const WaitGraph graph(world);
  size_t blocked = 0;
  int earliest = 0;
  for (size_t p = 0; p < world.points.size(); ++p) {
    blocked += world.points[p].blocked.size();
    if (world.points[p].since < world.points[earliest].since) earliest = static_cast<int>(p);
  }
  const Root root = FindRoot(world, graph, earliest);
  const WaitPoint& point = world.points[root.point];

  Finding finding;
  finding.kind = FindingClass::kDeadlock;
  finding.site = point.site;
  finding.ranks = root.ranks;
  finding.group = point.group;
  finding.actual = MissingText(point, world, graph);
  finding.reference = point.what;
  finding.message = fmt::format("deadlock: {} of {} ranks are blocked, {} have ended", blocked,
                                world.ranks, world.ranks - static_cast<int>(blocked));
  for (const WaitPoint& each : world.points) {
    finding.message += fmt::format("\n  rank {} in {}: {}", RankList(each.blocked), each.what,
                                   MissingText(each, world, graph));
  }
  std::vector<int> cycle = graph.CycleThrough(root.point);
  if (cycle.size() > 1) {
    const auto least = std::min_element(cycle.begin(), cycle.end());
    std::rotate(cycle.begin(), least, cycle.end());
    finding.message += "\n  cycle: ";
    for (int rank : cycle) finding.message += fmt::format("rank {} waits for ", rank);
    finding.message += fmt::format("rank {}", cycle.front());
  }
  return finding;
}

}  // namespace plumbline
