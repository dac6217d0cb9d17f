// What a run is, from the arguments given and the values that the others take.
#ifndef PLUMBLINE_CLI_RUN_OPTIONS_H_
#define PLUMBLINE_CLI_RUN_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/config.h"
#include "cli/command_line.h"
#include "cli/settings.h"
#include "scenarios/scenario.h"

namespace plumbline {

struct RunOptions {
  RunConfig config;
  std::string data;   // as given; empty: bytes drawn from the seed
  std::string plant;  // empty: none
  ExactOptions exact;
  bool random_schedule = false;
  uint64_t schedule_seed = 0;
  bool continue_on_mismatch = false;
  int max_findings = 10;
  bool json = false;
  bool timings = false;

  std::vector<Setting> settings;     // of everything that decides a value, in the table's order
  std::vector<std::string> ignored;  // names that were given and have no effect
  std::vector<std::string> notes;    // what was decided on the way, a line each
  std::string repeat;                // the command line that repeats the run
};

// Values that hide no mistakes: a vocabulary that nothing divides, fewer query groups than heads,
// uneven loss masks, packed documents, dropout, several microbatches and steps, tensor and data
// parallelism together.
RunConfig FixtureConfig();

// For `verify`. Errors: InvalidArgument names all refused arguments at once, or the rule that a
// combination breaks.
RunOptions MakeRunOptions(const CommandLine& line);

// For commands that describe a run and do not make it: of any size, with context-parallel ranks,
// and with gradient buffers in any case.
RunConfig MakeDescribedConfig(const CommandLine& line, std::vector<std::string>* notes);

// For `layout`: the same, but every axis of the mesh is allowed and defaults to 1.
RunConfig MakeLayoutConfig(const CommandLine& line);

}  // namespace plumbline

#endif  // PLUMBLINE_CLI_RUN_OPTIONS_H_
