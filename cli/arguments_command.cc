// plumbline arguments.
#include <fmt/format.h>

#include "cli/arguments.h"
#include "cli/commands.h"

namespace plumbline {
namespace {

const char* ValuesText(Arity arity) {
  switch (arity) {
    case Arity::kNone:
      return "";
    case Arity::kOne:
      return "X";
    case Arity::kSome:
      return "X...";
    case Arity::kAny:
      return "[X...]";
  }
  return "";
}

}  // namespace

int RunArguments(const Console& console) {
  std::vector<std::vector<std::string>> rows;
  for (const Argument& argument : AllArguments()) {
    std::string name = fmt::format("--{}{} {}", argument.name,
                                   argument.alias.empty() ? "" : ", --" + argument.alias,
                                   ValuesText(argument.arity));
    name.erase(name.find_last_not_of(' ') + 1);
    std::string note = argument.note;
    if (!argument.neutral.empty()) note += " (accepted: " + argument.neutral + ")";
    rows.push_back({std::string(Name(argument.kind)), name, note});
  }
  console.out << FormatTable(rows, {});
  return 0;
}

}  // namespace plumbline
