// plumbline memory.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/mesh.h"
#include "cli/commands.h"
#include "cli/measure_memory.h"
#include "cli/stage_memory.h"

namespace plumbline {
namespace {

using Json = nlohmann::ordered_json;
using Rows = std::vector<std::vector<std::string>>;

// One row of the table: a state, or masters and moments together, which are measured as one.
struct StateRow {
  std::string name;
  std::vector<StateBytes> states;
  double formula = 0;
  int64_t layout = 0;
  std::optional<int64_t> measured;
};

// Ranks of one stage that own the same, and measure the same.
struct Holder {
  int stage = 0;
  int shard = 0;
  std::vector<int> ranks;
  int64_t elements = 0;
  int64_t padding = 0;
  std::vector<StateRow> rows;
  std::optional<RankMemory> measured;
};

bool OfOptimizer(MemoryState state) { return state >= MemoryState::kMasters; }

std::vector<StateRow> RowsOf(const std::vector<StateMemory>& states) {
  std::vector<StateRow> rows;
  for (const StateMemory& memory : states) {
    const MemoryState state = memory.per_parameter.state;
    const bool joins =
        OfOptimizer(state) && !rows.empty() && OfOptimizer(rows.back().states.front().state);
    if (!joins) rows.push_back({std::string(Name(state)), {}, 0, 0, std::nullopt});
    StateRow& row = rows.back();
    if (joins) row.name = "masters, moments";
    row.states.push_back(memory.per_parameter);
    row.formula += memory.formula;
    row.layout += memory.layout;
  }
  return rows;
}

void AddMeasured(const RankMemory& memory, Holder* holder) {
  holder->measured = memory;
  for (StateRow& row : holder->rows) {
    const MemoryState state = row.states.front().state;
    if (state == MemoryState::kWeights) row.measured = memory.Held(MemoryCategory::kParameter);
    if (state == MemoryState::kMainGrads) row.measured = memory.Held(MemoryCategory::kGradient);
    if (OfOptimizer(state)) row.measured = memory.Held(MemoryCategory::kOptimizer);
  }
}

// Of ranks that should hold the same.
void CheckSame(const RankMemory& a, const RankMemory& b) {
  for (MemoryCategory category :
       {MemoryCategory::kParameter, MemoryCategory::kGradient, MemoryCategory::kOptimizer}) {
    PL_CHECK(a.Held(category) == b.Held(category));
  }
}

std::vector<Holder> Holders(const RunConfig& config, const std::vector<RankMemory>& measured) {
  const ParallelConfig& parallel = config.parallel;
  const Mesh mesh(parallel);
  std::vector<StageBuffers> stages;
  for (int stage = 0; stage < parallel.pp; ++stage) stages.push_back(StageBuffersOf(config, stage));
  std::vector<Holder> holders;
  std::map<std::pair<int, int>, size_t> index;
  for (int rank = 0; rank < mesh.world_size(); ++rank) {
    const Group& group = mesh.GroupOf("dp-cp", rank);
    const int shards = group.size() / parallel.data.num_distributed_optimizer_instances;
    const int stage = mesh.CoordinateOf(rank, "pp");
    const int shard = parallel.data.use_distributed_optimizer() ? group.IndexOf(rank) % shards : 0;
    const auto [place, is_new] = index.try_emplace({stage, shard}, holders.size());
    if (is_new) {
      const StageBuffers& buffers = stages[static_cast<size_t>(stage)];
      holders.push_back({stage,
                         shard,
                         {},
                         buffers.elements(),
                         buffers.padding(),
                         RowsOf(StageMemory(config, buffers, shard)),
                         std::nullopt});
      if (!measured.empty()) {
        AddMeasured(measured[static_cast<size_t>(rank)], &holders.back());
      }
    }
    Holder& holder = holders[place->second];
    holder.ranks.push_back(rank);
    if (holder.measured) CheckSame(*holder.measured, measured[static_cast<size_t>(rank)]);
  }
  return holders;
}

std::string RanksText(const std::vector<int>& ranks) {
  constexpr size_t kMost = 8;
  if (ranks.size() <= kMost) return fmt::format("{}", fmt::join(ranks, ","));
  return fmt::format("{},{}.. ({})", ranks[0], ranks[1], ranks.size());
}

std::string Title(const RunConfig& config) {
  std::string text =
      fmt::format("{} weights, {} gradients, {}, {}: {} bytes per parameter, d = {}\n",
                  Name(config.dtype), Name(config.grad_dtype()), Name(config.train.optimizer),
                  Name(config.parallel.data.sharding_strategy), FormulaText(MemoryFormula(config)),
                  config.parallel.dp * config.parallel.cp /
                      config.parallel.data.num_distributed_optimizer_instances);
  std::vector<std::string> parts;
  for (const StateBytes& state : MemoryFormula(config)) {
    parts.push_back(fmt::format("{} {}", Name(state.state), FormulaText({state})));
  }
  return text + fmt::format("{}\n", fmt::join(parts, ", "));
}

std::string StateTable(const std::vector<Holder>& holders) {
  Rows rows = {{"ranks", "stage", "shard", "parameters", "state", "formula", "by layout",
                "measured", "per parameter"}};
  for (const Holder& holder : holders) {
    StateRow all;
    all.name = "all";
    std::vector<StateRow> states = holder.rows;
    for (const StateRow& row : states) {
      all.formula += row.formula;
      all.layout += row.layout;
      if (holder.measured) all.measured = all.measured.value_or(0) + row.measured.value_or(0);
    }
    states.push_back(std::move(all));
    for (const StateRow& row : states) {
      const int64_t held = row.measured.value_or(row.layout);
      rows.push_back({RanksText(holder.ranks), fmt::format("{}", holder.stage),
                      fmt::format("{}", holder.shard), fmt::format("{}", holder.elements), row.name,
                      fmt::format("{:.1f}", row.formula), fmt::format("{}", row.layout),
                      row.measured ? fmt::format("{}", *row.measured) : "-",
                      fmt::format("{:.3f}", static_cast<double>(held) /
                                                static_cast<double>(holder.elements))});
    }
  }
  return FormatTable(rows, {1, 2, 3, 5, 6, 7, 8});
}

constexpr MemoryCategory kBeside[] = {MemoryCategory::kCommunication, MemoryCategory::kGathered,
                                      MemoryCategory::kActivation, MemoryCategory::kOther};

std::string LeftOut(const RunConfig& config, const std::vector<Holder>& holders) {
  std::string text = "left out by the formula: padding of buffers, shards that own unequal parts";
  for (const StateBytes& state : MemoryFormula(config)) {
    if (state.state != MemoryState::kGradCopies) continue;
    text += "; gradient copies are\nnot kept here, as each gradient is cast while it is read";
  }
  text += "\n";
  if (!holders.front().measured) return text;
  text += "and what comes and goes, at its peak, in bytes:\n\n";
  Rows rows = {{"ranks", "padding elements"}};
  for (MemoryCategory category : kBeside) rows[0].emplace_back(Name(category));
  for (const Holder& holder : holders) {
    std::vector<std::string>& row = rows.emplace_back();
    row = {RanksText(holder.ranks), fmt::format("{}", holder.padding)};
    for (MemoryCategory category : kBeside) {
      row.push_back(fmt::format("{}", holder.measured->Peak(category)));
    }
  }
  return text + FormatTable(rows, {1, 2, 3, 4, 5});
}

Json HolderJson(const Holder& holder) {
  Json states = Json::array();
  for (const StateRow& row : holder.rows) {
    states.push_back({{"state", row.name},
                      {"per_parameter", FormulaText(row.states)},
                      {"formula", row.formula},
                      {"layout", row.layout},
                      {"measured", row.measured ? Json(*row.measured) : Json(nullptr)}});
  }
  Json json = {{"ranks", holder.ranks},     {"stage", holder.stage},
               {"shard", holder.shard},     {"parameters", holder.elements},
               {"padding", holder.padding}, {"states", std::move(states)}};
  if (!holder.measured) return json;
  Json peaks = Json::object();
  for (MemoryCategory category : kBeside) {
    peaks[std::string(Name(category))] = holder.measured->Peak(category);
  }
  json["peaks"] = std::move(peaks);
  return json;
}

bool ParseMeasure(const std::string& text) {
  if (text == "yes") return true;
  if (text == "no") return false;
  throw InvalidArgument("--measure {}: expected yes or no", text);
}

}  // namespace

int RunMemory(const CommandLine& line, const Console& console) {
  std::vector<std::string> notes;
  const RunConfig config = MakeDescribedConfig(line, &notes);
  const bool measure = ParseMeasure(line.options.Text("--measure").value_or("yes"));
  const std::vector<RankMemory> measured =
      measure ? MeasureMemory(config) : std::vector<RankMemory>();
  const std::vector<Holder> holders = Holders(config, measured);
  if (line.json) {
    Json list = Json::array();
    for (const Holder& holder : holders) list.push_back(HolderJson(holder));
    const Json json = {{"formula", FormulaText(MemoryFormula(config))},
                       {"holders", std::move(list)}};
    console.out << json.dump(2) << "\n";
    return 0;
  }
  console.out << Title(config);
  for (const std::string& note : notes) console.out << "note: " << note << "\n";
  console.out << "\n" << StateTable(holders) << "\n" << LeftOut(config, holders);
  return 0;
}

}  // namespace plumbline
