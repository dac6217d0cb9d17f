// plumbline schedule: a pipeline schedule as a picture, with its bubble and its live activations.
//
// The bubble comes from simulating the schedule, and is checked against the formula where there is
// one (parallel/pipeline/simulate.h).
#ifndef PLUMBLINE_CLI_SCHEDULE_COMMAND_H_
#define PLUMBLINE_CLI_SCHEDULE_COMMAND_H_

#include <string>
#include <vector>

#include "cli/console.h"

namespace plumbline {

// One line, for the program's overview.
inline constexpr const char* kScheduleSummary =
    "Draw a pipeline schedule; print its bubble and its live activations";

// `words` are those after "schedule". Returns the exit status, 0.
// Errors: InvalidArgument, one line, for what is unknown, is no number, or breaks a rule
// (parallel/pipeline/schedule.h, Validate); IoError for --svg. A picture is whole or not there.
int RunSchedule(const std::vector<std::string>& words, const Console& console);

}  // namespace plumbline

#endif  // PLUMBLINE_CLI_SCHEDULE_COMMAND_H_
