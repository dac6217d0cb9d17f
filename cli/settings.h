// Every value that decides a run, under the name of its argument.
#ifndef PLUMBLINE_CLI_SETTINGS_H_
#define PLUMBLINE_CLI_SETTINGS_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/config.h"
#include "cli/given_arguments.h"

namespace plumbline {

using SettingValue = std::variant<bool, int64_t, double, std::string>;
std::string ToText(const SettingValue& value);

struct Setting {
  std::string name;  // of the argument, without dashes
  SettingValue value;
  bool given = false;
  bool acts = true;  // false: without effect beside the others, as rotary settings without rope
};

// Layout, model and training, in the table's order.
std::vector<Setting> DescribeSettings(const RunConfig& config, const GivenArguments& given);

// `plumbline verify ...` with the arguments that were given, whether on the command line or in a
// file, and the layout and seed in any case. How the result is shown (--json, --timings) is left
// out.
std::string RepeatLine(const RunConfig& config, const GivenArguments& given);

// A word as a shell reads it back.
std::string ShellQuote(const std::string& word);

}  // namespace plumbline

#endif  // PLUMBLINE_CLI_SETTINGS_H_
