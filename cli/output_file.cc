#include "cli/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "cli/files.h"

namespace plumbline {
namespace {

// The errno of what failed; 0 when everything is written and closed.
int WriteAll(int file, std::string_view contents) {
  int error = 0;
  while (!contents.empty() && error == 0) {
    const ssize_t written = write(file, contents.data(), contents.size());
    if (written >= 0) {
      contents.remove_prefix(static_cast<size_t>(written));
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  if (close(file) != 0 && error == 0) error = errno;
  return error;
}

}  // namespace

void WriteFileAtomically(const std::string& flag, const std::string& path,
                         std::string_view contents) {
  if (path.empty()) throw InvalidArgument("{}: expected the name of a file", flag);
  const std::string resolved = ResolvePath(path);
  std::error_code ignored;
  if (std::filesystem::is_directory(resolved, ignored)) {
    throw IoError("{} {}: is a directory; expected a file", flag, path);
  }
  const std::string temporary = fmt::format("{}.{}.partial", resolved, getpid());
  const int file = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file < 0) throw IoError("{} {}: {}", flag, path, std::strerror(errno));
  int error = WriteAll(file, contents);
  if (error == 0 && std::rename(temporary.c_str(), resolved.c_str()) != 0) error = errno;
  if (error != 0) {
    unlink(temporary.c_str());
    throw IoError("{} {}: {}", flag, path, std::strerror(error));
  }
}

}  // namespace plumbline
