// Files that a person names on the command line.
#ifndef PLUMBLINE_CLI_FILES_H_
#define PLUMBLINE_CLI_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

namespace plumbline {

// A relative path counts from the directory that the person is in. `bazel run` starts programs
// elsewhere and says where the person is in BUILD_WORKING_DIRECTORY; bazelw, when called from
// outside the workspace, in PLUMBLINE_WORKING_DIRECTORY, which wins.
std::string ResolvePath(const std::string& path);

// The whole file. `flag` and `path` (as given) are named in errors.
// Errors: IoError when it cannot be read, is a directory, is larger than 1 GiB; InvalidArgument
// when it is empty.
std::vector<uint8_t> ReadFile(const std::string& flag, const std::string& path);

}  // namespace plumbline

#endif  // PLUMBLINE_CLI_FILES_H_
