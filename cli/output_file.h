// Files that the program writes.
#ifndef PLUMBLINE_CLI_OUTPUT_FILE_H_
#define PLUMBLINE_CLI_OUTPUT_FILE_H_

#include <string>
#include <string_view>

namespace plumbline {

// Writes the whole file under another name beside it and renames that, so that nobody ever finds a
// part of it. `flag` and `path` (as given; files.h, ResolvePath) are named in errors.
// Errors: IoError; an older file of that name then stays as it was.
void WriteFileAtomically(const std::string& flag, const std::string& path,
                         std::string_view contents);

}  // namespace plumbline

#endif  // PLUMBLINE_CLI_OUTPUT_FILE_H_
