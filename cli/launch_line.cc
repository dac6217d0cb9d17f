#include "cli/launch_line.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>

#include "base/error.h"
#include "cli/arguments.h"

namespace plumbline {
namespace {

bool IsFlag(const std::string& word) { return word.size() > 2 && word.starts_with("--"); }

bool IsScript(const std::string& word) { return word.ends_with(".py"); }

// CUDA_DEVICE_MAX_CONNECTIONS=1
bool IsSetting(const std::string& word) {
  const size_t equals = word.find('=');
  if (equals == std::string::npos || equals == 0) return false;
  return std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(equals), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

bool IsLauncher(const std::string& word) {
  constexpr std::array<std::string_view, 7> kLaunchers = {"torchrun", "python",  "python3",  "srun",
                                                          "mpirun",   "mpiexec", "deepspeed"};
  const std::string program = std::filesystem::path(word).filename().string();
  return IsSetting(word) ||
         std::find(kLaunchers.begin(), kLaunchers.end(), program) != kLaunchers.end();
}

// How many of the words after `words[i]`, a flag, are its values.
size_t ValuesAfter(const std::vector<std::string>& words, size_t i) {
  if (words[i].find('=') != std::string::npos) return 0;
  const Argument* argument = FindArgument(words[i].substr(2));
  if (argument == nullptr || argument->arity == Arity::kNone) return 0;
  if (argument->arity == Arity::kOne) return 1;
  size_t count = 0;
  while (i + 1 + count < words.size() && !IsFlag(words[i + 1 + count])) ++count;
  return count;
}

// A launcher's option in any of its spellings; 0 when it is missing or no number.
int64_t LauncherNumber(const std::vector<std::string>& words, const std::string& name) {
  for (size_t i = 0; i < words.size(); ++i) {
    std::string word = words[i];
    std::string value = i + 1 < words.size() ? words[i + 1] : "";
    if (const size_t equals = word.find('='); equals != std::string::npos) {
      value = word.substr(equals + 1);
      word = word.substr(0, equals);
    }
    std::replace(word.begin(), word.end(), '_', '-');
    if (word != "--" + name) continue;
    int64_t number = 0;
    const char* end = value.data() + value.size();
    const auto [stop, error] = std::from_chars(value.data(), end, number);
    return error == std::errc() && stop == end ? number : 0;
  }
  return 0;
}

}  // namespace

LaunchLine StripLauncher(const std::vector<std::string>& arguments) {
  LaunchLine line;
  bool stripped = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (IsFlag(word)) {
      const size_t last = std::min(i + ValuesAfter(arguments, i), arguments.size() - 1);
      line.arguments.insert(line.arguments.end(),
                            arguments.begin() + static_cast<std::ptrdiff_t>(i),
                            arguments.begin() + static_cast<std::ptrdiff_t>(last) + 1);
      i = last;
      continue;
    }
    if (stripped || !(IsScript(word) || IsLauncher(word))) {
      line.arguments.push_back(word);
      continue;
    }
    const auto begin = arguments.begin() + static_cast<std::ptrdiff_t>(i);
    const auto script = std::find_if(begin, arguments.end(), IsScript);
    if (script == arguments.end()) {
      throw InvalidArgument("'{}': expected a script, as pretrain_gpt.py, after a launcher", word);
    }
    const std::vector<std::string> launcher(begin, script);
    const int64_t per_node = LauncherNumber(launcher, "nproc-per-node");
    const int64_t nodes = LauncherNumber(launcher, "nnodes");
    if (per_node > 0) line.world_size = per_node * std::max<int64_t>(1, nodes);
    i = static_cast<size_t>(script - arguments.begin());
    stripped = true;
  }
  return line;
}

}  // namespace plumbline
