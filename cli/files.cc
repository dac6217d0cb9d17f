#include "cli/files.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "base/error.h"

namespace plumbline {

std::string ResolvePath(const std::string& path) {
  if (std::filesystem::path(path).is_absolute()) return path;
  for (const char* variable : {"PLUMBLINE_WORKING_DIRECTORY", "BUILD_WORKING_DIRECTORY"}) {
    const char* directory = std::getenv(variable);
    if (directory != nullptr && directory[0] != '\0') {
      return (std::filesystem::path(directory) / path).string();
    }
  }
  return path;
}

std::vector<uint8_t> ReadFile(const std::string& flag, const std::string& path) {
  constexpr size_t kMostBytes = size_t{1} << 30;
  const std::string resolved = ResolvePath(path);
  std::error_code error;
  if (std::filesystem::is_directory(resolved, error)) {
    throw IoError("{} {}: is a directory; expected a file", flag, path);
  }
  std::ifstream stream(resolved, std::ios::binary);
  if (!stream) throw IoError("{} {}: {}", flag, path, std::strerror(errno));
  std::vector<uint8_t> bytes;
  std::vector<char> piece(size_t{1} << 16);
  while (stream.read(piece.data(), static_cast<std::streamsize>(piece.size())) ||
         stream.gcount() > 0) {
    bytes.insert(bytes.end(), piece.begin(), piece.begin() + stream.gcount());
    if (bytes.size() > kMostBytes) {
      throw IoError("{} {}: larger than 1 GiB; expected a smaller file", flag, path);
    }
  }
  if (stream.bad()) throw IoError("{} {}: {}", flag, path, std::strerror(errno));
  if (bytes.empty()) throw InvalidArgument("{} {}: the file is empty", flag, path);
  return bytes;
}

}  // namespace plumbline
