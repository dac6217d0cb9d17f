// Arguments in a TOML file: the same names, with dashes or underscores, in the file's root or under
// any headings.
#ifndef PLUMBLINE_CLI_TOML_ARGUMENTS_H_
#define PLUMBLINE_CLI_TOML_ARGUMENTS_H_

#include <string>

#include "cli/given_arguments.h"

namespace plumbline {

//   tensor_model_parallel_size = 2
//   sequence_parallel = true          # a flag; false: as if it were not there
//   [model]                           # headings are for the reader
//   rotary-base = 1e6
//   data-path = ["a", "b"]            # several values
//
// Errors: IoError and InvalidArgument name the file, the line and the key.
GivenArguments ParseTomlFile(const std::string& path);
// `path` is for messages.
GivenArguments ParseToml(const std::string& text, const std::string& path);

}  // namespace plumbline

#endif  // PLUMBLINE_CLI_TOML_ARGUMENTS_H_
