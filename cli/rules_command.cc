// plumbline rules.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/data_parallel_rules.h"
#include "cli/data_parallel_options.h"
#include "cli/describing_commands.h"

namespace plumbline {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kWidth = 100;

struct Row {
  std::string_view name;
  RuleSource source;
  std::string_view text;
};

// Those of flags, then those of a run.
std::vector<Row> AllRules() {
  std::vector<Row> rows;
  for (const FlagRule& rule : DataParallelFlagRules()) {
    rows.push_back({rule.name, rule.source, rule.text});
  }
  for (const DataParallelRule& rule : DataParallelRules()) {
    rows.push_back({rule.name, rule.source, rule.text});
  }
  return rows;
}

std::vector<std::string> WordsOf(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const size_t blank = std::min(text.find(' '), text.size());
    words.emplace_back(text.substr(0, blank));
    text.remove_prefix(std::min(blank + 1, text.size()));
  }
  return words;
}

}  // namespace

int RunRules(const CommandLine& line, const Console& console) {
  const std::vector<Row> rules = AllRules();
  if (line.json) {
    Json list = Json::array();
    for (const Row& rule : rules) {
      list.push_back({{"name", rule.name}, {"source", Name(rule.source)}, {"rule", rule.text}});
    }
    console.out << Json{{"rules", std::move(list)}}.dump(2) << "\n";
    return 0;
  }
  console.out << "megatron: Megatron refuses it, and so does plumbline; plumbline: it alone does;\n"
                 "lifted: Megatron refuses it, plumbline does not.\n";
  for (const Row& rule : rules) {
    console.out << fmt::format("\n{} ({})\n{}", rule.name, Name(rule.source),
                               Wrap(WordsOf(rule.text), 2, kWidth));
  }
  return 0;
}

}  // namespace plumbline
