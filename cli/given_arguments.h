// The arguments of one command, as given: on the command line, in a file, or both.
#ifndef PLUMBLINE_CLI_GIVEN_ARGUMENTS_H_
#define PLUMBLINE_CLI_GIVEN_ARGUMENTS_H_

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/arguments.h"

namespace plumbline {

struct GivenArgument {
  const Argument* argument = nullptr;
  std::vector<std::string> values;  // a flag: "true" or "false"
  std::string where;                // "", or "model.toml line 3: "
};

// By name (never by alias). Readers throw InvalidArgument that names place, flag, value and what
// was expected.
class GivenArguments {
 public:
  // Replaces an earlier one of the same name: the last one counts, as in Megatron-LM.
  void Set(GivenArgument given);
  // Takes over everything that is not set here.
  void AddMissing(const GivenArguments& weaker);

  const std::map<std::string, GivenArgument>& all() const { return all_; }
  // A flag that was given as false counts as not given.
  bool Has(const std::string& name) const;
  const GivenArgument* Find(const std::string& name) const;

  bool Flag(const std::string& name) const { return Has(name); }
  std::optional<std::string> Text(const std::string& name) const;
  std::optional<int64_t> Integer(const std::string& name) const;
  std::optional<double> Number(const std::string& name) const;
  // The value that stands beside the word given.
  template <class E>
  std::optional<E> Choice(const std::string& name,
                          std::initializer_list<std::pair<const char*, E>> words) const {
    const std::optional<std::string> text = Text(name);
    if (!text.has_value()) return std::nullopt;
    std::vector<std::string> expected;
    for (const auto& [word, value] : words) {
      if (*text == word) return value;
      expected.push_back(word);
    }
    ThrowChoice(name, *text, expected);
  }

  // Stores the value when the argument was given.
  template <class T>
  void ReadInteger(const std::string& name, T* target) const {
    if (const std::optional<int64_t> value = Integer(name)) {
      CheckRange(name, *value, std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
      *target = static_cast<T>(*value);
    }
  }
  void ReadNumber(const std::string& name, double* target) const {
    if (const std::optional<double> value = Number(name)) *target = *value;
  }

  // "--name" with its place before it, for messages.
  std::string Label(const std::string& name) const;

 private:
  [[noreturn]] void ThrowChoice(const std::string& name, const std::string& value,
                                const std::vector<std::string>& expected) const;
  void CheckRange(const std::string& name, int64_t value, int64_t least, int64_t most) const;

  std::map<std::string, GivenArgument> all_;
};

}  // namespace plumbline

#endif  // PLUMBLINE_CLI_GIVEN_ARGUMENTS_H_
