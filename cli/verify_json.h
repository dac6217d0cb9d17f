// A verdict as one JSON object; docs/json.md has the schema.
#ifndef PLUMBLINE_CLI_VERIFY_JSON_H_
#define PLUMBLINE_CLI_VERIFY_JSON_H_

#include <cstdint>
#include <optional>
#include <string>

#include "cli/run_options.h"
#include "scenarios/verify.h"

namespace plumbline {

// Ends in a newline. Numbers that JSON lacks are the strings "nan", "inf" and "-inf".
std::string VerdictJson(const RunOptions& options, int64_t data_bytes, const Verdict& verdict,
                        std::optional<double> wall_seconds);

}  // namespace plumbline

#endif  // PLUMBLINE_CLI_VERIFY_JSON_H_
