// The command-line arguments of a training run: Megatron-LM's, and ours beside them, as data.
//
// The table decides how many values an argument takes and what becomes of it. An argument that is
// not in it is unknown.
//
// Source: Megatron-LM training/arguments.py, for names, arities and defaults.
#ifndef PLUMBLINE_CLI_ARGUMENTS_H_
#define PLUMBLINE_CLI_ARGUMENTS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline {

// How many values follow: none, one, one or more, any number.
enum class Arity : uint8_t { kNone, kOne, kSome, kAny };

enum class ArgumentClass : uint8_t {
  kModelled,  // the run follows it
  kIgnored,   // no effect on what is compared; listed in one line
  kRefused,   // changes what a step computes or how, and is not modelled yet
};
std::string_view Name(ArgumentClass value);  // "modelled", "ignored", "refused"

struct Argument {
  std::string name;  // without dashes
  Arity arity = Arity::kNone;
  ArgumentClass kind = ArgumentClass::kModelled;
  std::string alias;    // a second name
  std::string group;    // kModelled: heading in the help
  std::string value;    // kModelled: what stands for the value in the help
  std::string note;     // kModelled: help; kIgnored: why; kRefused: what it would change
  std::string neutral;  // kRefused: values under which nothing changes, separated by '|'
};

// Sorted by class, then as in the table.
const std::vector<Argument>& AllArguments();

// By name or alias, without dashes; nullptr when unknown.
const Argument* FindArgument(std::string_view name);

// The name or alias with the least edit distance (insertion, deletion, substitution, swap of
// neighbours) to `name`, or empty when nothing is near.
std::string NearestArgument(std::string_view name);
// The same among given words.
std::string NearestWord(std::string_view word, const std::vector<std::string>& words);

// Whether a refused argument's value leaves everything as it is: equal to one of `neutral`, as text
// or as a number.
bool IsNeutral(const Argument& argument, std::string_view value);

namespace internal {
std::vector<Argument> ModelledArguments();
std::vector<Argument> IgnoredArguments();
std::vector<Argument> RefusedArguments();
}  // namespace internal

}  // namespace plumbline

#endif  // PLUMBLINE_CLI_ARGUMENTS_H_
