// What each command does. Each returns its exit status: 0 pass, 1 findings; an error is an
// exception.
#ifndef PLUMBLINE_CLI_COMMANDS_H_
#define PLUMBLINE_CLI_COMMANDS_H_

#include "cli/command_line.h"
#include "cli/console.h"

namespace plumbline {

int RunVerify(const CommandLine& line, const Console& console);
int RunLayout(const CommandLine& line, const Console& console);
int RunGolden(const CommandLine& line, const Console& console);
int RunPlants(const Console& console);
int RunArguments(const Console& console);

}  // namespace plumbline

#endif  // PLUMBLINE_CLI_COMMANDS_H_
