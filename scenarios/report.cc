#include "scenarios/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "scenarios/index_text.h"

namespace plumbline {
namespace {

bool HasValues(const Divergence& divergence) { return divergence.rank >= 0; }

std::string ValueText(const Divergence& divergence, const Number& value) {
  const std::string where = IndexText(divergence.index, divergence.shape);
  const std::string text = ToString(value);
  return where.empty() ? text : fmt::format("{} at {}", text, where);
}

std::string HowFar(const Divergence& divergence) {
  if (divergence.actual.exact()) {
    return fmt::format(" ({} value{} not equal)", divergence.deviation,
                       divergence.deviation == 1 ? " is" : "s are");
  }
  if (!(divergence.bound > 0)) return " (must be equal)";
  return fmt::format(" (deviation {:.2e}, bound {:.1e})", divergence.deviation, divergence.bound);
}

// The smallest group of more than one rank that holds all of them.
std::string SmallestGroup(const Mesh& mesh, const std::vector<int>& ranks) {
  if (ranks.size() < 2) return "";
  for (const std::string& axes : AxesWithRanks(mesh)) {
    const Group& group = mesh.GroupOf(axes, ranks.front());
    const bool all =
        std::all_of(ranks.begin(), ranks.end(), [&](int rank) { return group.IndexOf(rank) >= 0; });
    if (all) return ToString(group);
  }
  return "";
}

}  // namespace

std::string RanksText(const std::vector<int>& ranks) {
  constexpr size_t kShown = 8;
  if (ranks.size() == 1) return fmt::format("rank {}", ranks[0]);
  if (ranks.size() <= kShown) return fmt::format("ranks {}", fmt::join(ranks, ","));
  return fmt::format("ranks {},{},..,{} ({} of them)", ranks[0], ranks[1], ranks.back(),
                     ranks.size());
}

Finding MakeFinding(const Divergence& divergence, const Mesh& mesh, const Diagnosis* diagnosis,
                    const std::string& repeat) {
  Finding finding;
  finding.kind = divergence.kind;
  finding.site = divergence.site;
  finding.ranks = divergence.ranks;
  finding.repeat = repeat;
  std::string cause;
  if (HasValues(divergence)) {
    finding.actual = ValueText(divergence, divergence.actual);
    finding.reference = ValueText(divergence, divergence.reference);
  }
  if (diagnosis != nullptr) {
    finding.group = diagnosis->group;
    if (diagnosis->formula) {
      finding.formula = diagnosis->formula->text;
      finding.residual = diagnosis->formula->residual;
      cause = diagnosis->formula->cause;
    }
    if (!diagnosis->actual.empty()) {
      finding.actual = diagnosis->actual;
      finding.reference = diagnosis->reference;
    }
  }
  if (finding.group.empty()) finding.group = SmallestGroup(mesh, divergence.ranks);
  finding.message =
      fmt::format("{}{}: {}", RanksText(divergence.ranks),
                  finding.group.empty() ? "" : " " + finding.group, ToString(divergence.site));
  if (!divergence.note.empty()) {
    finding.message += fmt::format(": {}", divergence.note);
    const std::string where = IndexText(divergence.index, divergence.shape);
    if (!where.empty()) finding.message += fmt::format(" {}", where);
  }
  if (HasValues(divergence)) {
    finding.message += fmt::format(" is {} on rank {}, reference {}", finding.actual,
                                   divergence.rank, finding.reference);
    finding.message += HowFar(divergence);
  } else if (!finding.actual.empty()) {
    finding.message += fmt::format("; {} against {}", finding.actual, finding.reference);
  }
  if (!finding.formula.empty()) {
    finding.message += fmt::format("; {} (residual {:.1e})", finding.formula, finding.residual);
  }
  if (!cause.empty()) finding.message += fmt::format("; usually {}", cause);
  return finding;
}

}  // namespace plumbline
