#include "cli/arguments.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include "base/error.h"

namespace plumbline {
namespace {

// Optimal string alignment distance.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> rows(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) rows[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) rows[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = rows[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      rows[i][j] = std::min({rows[i - 1][j] + 1, rows[i][j - 1] + 1, substituted});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        rows[i][j] = std::min(rows[i][j], rows[i - 2][j - 2] + 1);
      }
    }
  }
  return rows[a.size()][b.size()];
}

std::optional<double> ToNumber(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::map<std::string, const Argument*, std::less<>> IndexArguments() {
  std::map<std::string, const Argument*, std::less<>> index;
  for (const Argument& argument : AllArguments()) {
    PL_CHECK(index.emplace(argument.name, &argument).second);
    if (!argument.alias.empty()) PL_CHECK(index.emplace(argument.alias, &argument).second);
  }
  return index;
}

const std::map<std::string, const Argument*, std::less<>>& ArgumentIndex() {
  static const std::map<std::string, const Argument*, std::less<>> index = IndexArguments();
  return index;
}

}  // namespace

std::string_view Name(ArgumentClass value) {
  switch (value) {
    case ArgumentClass::kModelled:
      return "modelled";
    case ArgumentClass::kIgnored:
      return "ignored";
    case ArgumentClass::kRefused:
      return "refused";
  }
  throw Internal("argument class {} has no name", static_cast<int>(value));
}

const std::vector<Argument>& AllArguments() {
  static const std::vector<Argument> arguments = [] {
    std::vector<Argument> all = internal::ModelledArguments();
    for (const std::vector<Argument>& part :
         {internal::IgnoredArguments(), internal::RefusedArguments()}) {
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }();
  return arguments;
}

const Argument* FindArgument(std::string_view name) {
  const auto found = ArgumentIndex().find(name);
  return found == ArgumentIndex().end() ? nullptr : found->second;
}

std::string NearestWord(std::string_view word, const std::vector<std::string>& words) {
  std::string best;
  size_t least = std::max<size_t>(1, word.size() / 2) + 1;
  for (const std::string& candidate : words) {
    const size_t distance = EditDistance(word, candidate);
    if (distance < least) {
      least = distance;
      best = candidate;
    }
  }
  return best;
}

std::string NearestArgument(std::string_view name) {
  std::vector<std::string> names;
  for (const Argument& argument : AllArguments()) {
    names.push_back(argument.name);
    if (!argument.alias.empty()) names.push_back(argument.alias);
  }
  return NearestWord(name, names);
}

bool IsNeutral(const Argument& argument, std::string_view value) {
  std::string_view rest = argument.neutral;
  const std::optional<double> number = ToNumber(value);
  while (!rest.empty()) {
    const size_t bar = std::min(rest.find('|'), rest.size());
    const std::string_view neutral = rest.substr(0, bar);
    if (value == neutral) return true;
    if (number.has_value() && number == ToNumber(neutral)) return true;
    rest.remove_prefix(std::min(bar + 1, rest.size()));
  }
  return false;
}

}  // namespace plumbline
