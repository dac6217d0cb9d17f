// A run and its verdict, for people.
#ifndef PLUMBLINE_CLI_VERIFY_TEXT_H_
#define PLUMBLINE_CLI_VERIFY_TEXT_H_

#include <cstdint>
#include <string>

#include "cli/console.h"
#include "cli/run_options.h"
#include "scenarios/verify.h"

namespace plumbline {

// What will run: layout, model, training, data; what was not given, and what has no effect.
std::string RunText(const RunOptions& options, int64_t data_bytes);

// Per quantity how much was compared and the worst deviation with its site, then the findings, then
// one line that says PASS or FAIL.
std::string VerdictText(const Console& console, const RunOptions& options, const Verdict& verdict);

}  // namespace plumbline

#endif  // PLUMBLINE_CLI_VERIFY_TEXT_H_
