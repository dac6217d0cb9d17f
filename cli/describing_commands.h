// Commands that describe a run and do not make it: of any size, nothing is allocated. Each returns
// its exit status, 0; an error is an exception.
#ifndef PLUMBLINE_CLI_DESCRIBING_COMMANDS_H_
#define PLUMBLINE_CLI_DESCRIBING_COMMANDS_H_

#include "cli/command_line.h"
#include "cli/console.h"

namespace plumbline {

int RunRules(const CommandLine& line, const Console& console);
int RunBuffers(const CommandLine& line, const Console& console);
// Writes --perfetto whole or not at all.
int RunTimeline(const CommandLine& line, const Console& console);

}  // namespace plumbline

#endif  // PLUMBLINE_CLI_DESCRIBING_COMMANDS_H_
