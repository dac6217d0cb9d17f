// From words to a command and its arguments.
#ifndef PLUMBLINE_CLI_COMMAND_LINE_H_
#define PLUMBLINE_CLI_COMMAND_LINE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cli/command_options.h"
#include "cli/given_arguments.h"

namespace plumbline {

struct CommandLine {
  std::string command;  // "verify"
  std::string help;     // what to print instead of running it: help, version

  GivenArguments given;                 // those of a training run, with what --config adds
  CommandOptions options;               // those of the command alone
  int64_t launcher_world_size = 0;      // of a pasted launch line; 0: not said
  std::vector<std::string> parameters;  // layout: --param
  std::vector<std::string> files;       // golden
  std::vector<std::string> words;       // schedule: all of them, as given
  bool json = false;
};

// `arguments` are those after the program's name.
//
// Errors: InvalidArgument, one line: an unknown command or argument with the nearest name, a
// missing value, a word that belongs to nothing; what --config names (toml_arguments.h).
CommandLine ParseCommandLine(const std::vector<std::string>& arguments);

}  // namespace plumbline

#endif  // PLUMBLINE_CLI_COMMAND_LINE_H_
