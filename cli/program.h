// The program: one command, one exit status.
#ifndef PLUMBLINE_CLI_PROGRAM_H_
#define PLUMBLINE_CLI_PROGRAM_H_

#include <string>
#include <vector>

#include "cli/console.h"

namespace plumbline {

// `arguments` are those after the program's name. Returns 0 pass, 1 findings, 2 error; an error
// prints one line.
int RunProgram(const std::vector<std::string>& arguments, const Console& console);

}  // namespace plumbline

#endif  // PLUMBLINE_CLI_PROGRAM_H_
