// plumbline layout.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/mesh.h"
#include "cli/commands.h"
#include "cli/parameter_layouts.h"
#include "cli/run_options.h"

namespace plumbline {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<const char*, 4> kDenseAxes = {"tp", "cp", "dp", "pp"};
constexpr std::array<const char*, 4> kExpertAxes = {"etp", "ep", "edp", "pp"};

// The expert grid is shown when it differs from the dense one, or could.
std::vector<std::string> Axes(const ParallelConfig& parallel) {
  std::vector<std::string> axes(kDenseAxes.begin(), kDenseAxes.end());
  if (parallel.ep > 1 || parallel.expert_tp() != parallel.tp) {
    axes.insert(axes.end(), kExpertAxes.begin(), kExpertAxes.end() - 1);
  }
  return axes;
}

// Families of one group per rank say nothing in text.
bool SaysSomething(const std::vector<Group>& groups) {
  return std::any_of(groups.begin(), groups.end(),
                     [](const Group& group) { return group.size() > 1; });
}

std::string RangesText(const std::vector<IndexRange>& ranges) {
  std::vector<std::string> words;
  int64_t padding = 0;
  for (const IndexRange& range : ranges) {
    if (range.begin < 0) {
      ++padding;
    } else if (range.begin == range.last) {
      words.push_back(fmt::format("{}", range.begin));
    } else {
      words.push_back(fmt::format("{}..{}", range.begin, range.last));
    }
  }
  std::string text = fmt::format("{}", fmt::join(words, ","));
  if (padding > 0) text += fmt::format("{}{} of padding", words.empty() ? "" : " and ", padding);
  return text;
}

std::string PieceText(const ParameterPiece& piece) {
  if (piece.axes.size() == 1) return "elements " + RangesText(piece.axes[0]);
  std::vector<std::string> words;
  for (size_t d = 0; d < piece.axes.size(); ++d) {
    words.push_back((d == 0 ? "rows " : "columns ") + RangesText(piece.axes[d]));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string MeshText(const ParallelConfig& parallel, const Mesh& mesh) {
  const std::vector<std::string> axes = Axes(parallel);
  std::vector<std::string> extents;
  for (const std::string& axis : axes) {
    extents.push_back(fmt::format("{} {}", axis, mesh.extent(axis)));
  }
  std::string text = fmt::format("{} ranks: {}; order {}\n\ncoordinates\n", mesh.world_size(),
                                 fmt::join(extents, ", "), parallel.order);
  std::vector<std::vector<std::string>> rows = {{"  rank"}};
  rows[0].insert(rows[0].end(), axes.begin(), axes.end());
  std::vector<size_t> right;
  for (size_t i = 0; i <= axes.size(); ++i) right.push_back(i);
  for (int rank = 0; rank < mesh.world_size(); ++rank) {
    rows.push_back({fmt::format("{}", rank)});
    for (const std::string& axis : axes) {
      rows.back().push_back(fmt::format("{}", mesh.CoordinateOf(rank, axis)));
    }
  }
  text += FormatTable(rows, right) + "\ngroups\n";
  rows.clear();
  std::vector<std::string> alone;
  for (const std::string& name : mesh.GroupNames()) {
    const std::vector<Group>& groups = mesh.Groups(name);
    if (!SaysSomething(groups)) {
      alone.push_back(name);
      continue;
    }
    std::vector<std::string> words;
    for (const Group& group : groups) {
      words.push_back(fmt::format("{{{}}}", fmt::join(group.members, ",")));
    }
    rows.push_back({"  " + name, fmt::format("{}", fmt::join(words, " "))});
  }
  if (!alone.empty()) {
    rows.push_back({"  alone", fmt::format("each rank in {}", fmt::join(alone, ", "))});
  }
  return text + FormatTable(rows, {});
}

std::string PlaceText(const PipelinePlace& place) {
  return place.chunk < 0 ? fmt::format("{}", place.stage)
                         : fmt::format("{} chunk {}", place.stage, place.chunk);
}

std::string ParameterText(const ParameterLayout& layout, int pp) {
  std::string text =
      fmt::format("\n{} [{}]", layout.tensor.name, fmt::join(layout.tensor.global_shape, ", "));
  if (pp > 1) {
    std::vector<std::string> places;
    for (const PipelinePlace& place : layout.places) places.push_back(PlaceText(place));
    text += fmt::format(", pipeline stage {}", fmt::join(places, " and "));
  }
  std::vector<std::vector<std::string>> rows;
  for (const ParameterPiece& piece : layout.pieces) {
    rows.push_back({fmt::format("  rank {}", fmt::join(piece.ranks, ",")), PieceText(piece)});
  }
  return text + "\n" + FormatTable(rows, {});
}

Json MeshJson(const ParallelConfig& parallel, const Mesh& mesh) {
  const std::vector<std::string> axes = Axes(parallel);
  Json extents = Json::object();
  for (const std::string& axis : axes) extents[axis] = mesh.extent(axis);
  Json ranks = Json::array();
  for (int rank = 0; rank < mesh.world_size(); ++rank) {
    Json coordinates = Json::object();
    for (const std::string& axis : axes) coordinates[axis] = mesh.CoordinateOf(rank, axis);
    ranks.push_back({{"rank", rank}, {"coordinates", std::move(coordinates)}});
  }
  Json families = Json::object();
  for (const std::string& name : mesh.GroupNames()) {
    Json groups = Json::array();
    for (const Group& group : mesh.Groups(name)) groups.push_back(group.members);
    families[name] = std::move(groups);
  }
  return {{"world_size", mesh.world_size()},
          {"order", parallel.order},
          {"axes", std::move(extents)},
          {"ranks", std::move(ranks)},
          {"groups", std::move(families)}};
}

Json ParameterJson(const ParameterLayout& layout) {
  Json pieces = Json::array();
  for (const ParameterPiece& piece : layout.pieces) {
    Json axes = Json::array();
    for (const std::vector<IndexRange>& ranges : piece.axes) {
      Json list = Json::array();
      for (const IndexRange& range : ranges) list.push_back(Json::array({range.begin, range.last}));
      axes.push_back(std::move(list));
    }
    pieces.push_back({{"ranks", piece.ranks}, {"axes", std::move(axes)}});
  }
  Json stages = Json::array();
  Json places = Json::array();
  for (const PipelinePlace& place : layout.places) {
    stages.push_back(place.stage);
    places.push_back(
        {{"stage", place.stage}, {"chunk", place.chunk < 0 ? Json(nullptr) : Json(place.chunk)}});
  }
  return {{"name", layout.tensor.name},
          {"shape", std::vector<int64_t>(layout.tensor.global_shape.begin(),
                                         layout.tensor.global_shape.end())},
          {"stages", std::move(stages)},
          {"places", std::move(places)},
          {"pieces", std::move(pieces)}};
}

}  // namespace

int RunLayout(const CommandLine& line, const Console& console) {
  const RunConfig config = MakeLayoutConfig(line);
  const Mesh mesh(config.parallel);
  std::vector<ParameterLayout> layouts;
  if (!line.parameters.empty()) layouts = ParameterLayouts(config, mesh, line.parameters);
  if (line.json) {
    Json json = MeshJson(config.parallel, mesh);
    Json parameters = Json::array();
    for (const ParameterLayout& layout : layouts) parameters.push_back(ParameterJson(layout));
    json["parameters"] = std::move(parameters);
    console.out << json.dump(2) << "\n";
    return 0;
  }
  console.out << MeshText(config.parallel, mesh);
  for (const ParameterLayout& layout : layouts) {
    console.out << ParameterText(layout, config.parallel.pp);
  }
  return 0;
}

}  // namespace plumbline
