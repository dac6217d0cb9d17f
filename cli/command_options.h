// Options of one command alone, of one value each, and what parsing is alike for every command.
#ifndef PLUMBLINE_CLI_COMMAND_OPTIONS_H_
#define PLUMBLINE_CLI_COMMAND_OPTIONS_H_

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace plumbline {

struct OptionRow {
  const char* names;  // "--pp,--pipeline-model-parallel-size"
  const char* value;  // what stands for it in the help
  const char* note;
};

// What was given, under the first name of its row. Of repeated options the last one counts.
class CommandOptions {
 public:
  void Set(const std::string& name, std::string text) { texts_[name] = std::move(text); }
  std::optional<std::string> Text(const std::string& name) const;
  // Stores a whole number from 0 on when the option was given. Errors: InvalidArgument.
  template <class T>
  void Read(const std::string& name, T* target) const {
    if (const auto value = Number(name, std::numeric_limits<T>::max())) {
      *target = static_cast<T>(*value);
    }
  }

 private:
  std::optional<int64_t> Number(const std::string& name, int64_t most) const;

  std::map<std::string, std::string> texts_;
};

void AddOptions(std::span<const OptionRow> rows, CLI::App& app);
CommandOptions CollectOptions(std::span<const OptionRow> rows, const CLI::App& app);

// Every name of the rows, dashes included.
std::vector<std::string> NamesOf(std::span<const OptionRow> rows);

// Returns the help when it was asked for, else an empty text. Words that belong to nothing are left
// to app.remaining(). Errors: InvalidArgument for what the parser refuses.
std::string ParseWords(std::vector<std::string> words, CLI::App& app);

}  // namespace plumbline

#endif  // PLUMBLINE_CLI_COMMAND_OPTIONS_H_
