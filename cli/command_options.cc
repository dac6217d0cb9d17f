#include "cli/command_options.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <charconv>
#include <sstream>

#include "base/error.h"

namespace plumbline {
namespace {

std::vector<std::string> NamesOf(const OptionRow& row) {
  std::vector<std::string> names;
  std::istringstream stream(row.names);
  for (std::string name; std::getline(stream, name, ',');) names.push_back(name);
  return names;
}

}  // namespace

std::optional<std::string> CommandOptions::Text(const std::string& name) const {
  const auto found = texts_.find(name);
  if (found == texts_.end()) return std::nullopt;
  return found->second;
}

std::optional<int64_t> CommandOptions::Number(const std::string& name, int64_t most) const {
  const std::optional<std::string> text = Text(name);
  if (!text.has_value()) return std::nullopt;
  int64_t value = 0;
  const char* end = text->data() + text->size();
  const auto [stopped, error] = std::from_chars(text->data(), end, value);
  if (error != std::errc() || stopped != end || text->empty()) {
    throw InvalidArgument("{} {}: expected a whole number", name, *text);
  }
  if (value < 0 || value > most) {
    throw InvalidArgument("{} {}: expected a number from 0 to {}", name, *text, most);
  }
  return value;
}

void AddOptions(std::span<const OptionRow> rows, CLI::App& app) {
  for (const OptionRow& row : rows) {
    app.add_option(row.names)->description(row.note)->type_name(row.value)->multi_option_policy(
        CLI::MultiOptionPolicy::TakeLast);
  }
}

CommandOptions CollectOptions(std::span<const OptionRow> rows, const CLI::App& app) {
  CommandOptions options;
  for (const OptionRow& row : rows) {
    const std::string name = NamesOf(row).front();
    const CLI::Option* option = app.get_option(name);
    if (option->count() > 0) options.Set(name, option->results().back());
  }
  return options;
}

std::vector<std::string> NamesOf(std::span<const OptionRow> rows) {
  std::vector<std::string> names;
  for (const OptionRow& row : rows) {
    for (std::string& name : NamesOf(row)) names.push_back(std::move(name));
  }
  return names;
}

std::string ParseWords(std::vector<std::string> words, CLI::App& app) {
  app.allow_extras();
  app.get_formatter()->column_width(44);
  std::reverse(words.begin(), words.end());
  try {
    app.parse(std::move(words));
  } catch (const CLI::CallForHelp&) {
    return app.help();
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string text = error.what();
    throw InvalidArgument("{}: expected a value", text.substr(0, text.find(':')));
  } catch (const CLI::ParseError& error) {
    throw InvalidArgument("{}", std::string(error.what()));
  }
  return "";
}

}  // namespace plumbline
