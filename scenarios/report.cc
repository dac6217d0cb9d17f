#include "scenarios/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

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
  if (std::isnan(divergence.bound)) {
    return fmt::format(" (deviation {:.2e}; one-rank runs are not finite here)",
                       divergence.deviation);
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

std::vector<PipelinePlace> PlacesOf(const StageLayout& stages, const Mesh& mesh,
                                    const std::string& tensor, const std::vector<int>& ranks) {
  if (stages.stages() == 1) return {};
  const std::vector<PipelinePlace> of_tensor = stages.PlacesOf(tensor);
  std::set<PipelinePlace> places;
  for (const int rank : ranks) {
    const int stage = mesh.CoordinateOf(rank, "pp");
    bool known = false;
    for (const PipelinePlace& place : of_tensor) {
      if (place.stage != stage) continue;
      places.insert({stage, stages.chunks() > 1 ? place.chunk : -1});
      known = true;
    }
    if (!known) places.insert({stage, -1});
  }
  return {places.begin(), places.end()};
}

std::string PlacesText(const std::vector<PipelinePlace>& places) {
  const bool chunks = std::any_of(places.begin(), places.end(),
                                  [](const PipelinePlace& place) { return place.chunk >= 0; });
  std::vector<std::string> names;
  for (const PipelinePlace& place : places) {
    names.push_back(place.chunk >= 0 ? fmt::format("stage {} chunk {}", place.stage, place.chunk)
                    : chunks         ? fmt::format("stage {}", place.stage)
                                     : fmt::format("{}", place.stage));
  }
  if (chunks) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("stage{} {}", names.size() == 1 ? "" : "s", fmt::join(names, ","));
}

Finding MakeFinding(const Divergence& divergence, const Mesh& mesh, const StageLayout& stages,
                    const Diagnosis* diagnosis, const std::string& repeat) {
  Finding finding;
  finding.kind = divergence.kind;
  finding.site = divergence.site;
  finding.ranks = divergence.ranks;
  finding.places = PlacesOf(stages, mesh, divergence.site.tensor, divergence.ranks);
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
  finding.message = RanksText(divergence.ranks);
  if (!finding.places.empty()) {
    finding.message += fmt::format(" ({})", PlacesText(finding.places));
  }
  finding.message += fmt::format("{}: {}", finding.group.empty() ? "" : " " + finding.group,
                                 ToString(divergence.site));
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
