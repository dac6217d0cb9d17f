// What each command does. Each returns its exit status: 0 pass, 1 findings; an error is an
// exception.
#ifndef PLUMBLINE_CLI_COMMANDS_H_
#define PLUMBLINE_CLI_COMMANDS_H_

#include <cstdint>
#include <vector>

#include "cli/command_line.h"
#include "cli/console.h"
#include "cli/run_options.h"

namespace plumbline {

int RunVerify(const CommandLine& line, const Console& console);
int RunLayout(const CommandLine& line, const Console& console);
// The bytes of the run's tokens: of --data, else drawn from the seed.
std::vector<uint8_t> DataOf(const RunOptions& options);

int RunGradcheck(const CommandLine& line, const Console& console);
int RunGolden(const CommandLine& line, const Console& console);
int RunMemory(const CommandLine& line, const Console& console);
int RunPlants(const Console& console);
int RunArguments(const Console& console);

}  // namespace plumbline

#endif  // PLUMBLINE_CLI_COMMANDS_H_
