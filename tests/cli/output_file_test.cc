#include "cli/output_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "base/error.h"

namespace plumbline {
namespace {

namespace fs = std::filesystem;

class OutputFileTest : public testing::Test {
 protected:
  OutputFileTest() : directory_(fs::path(testing::TempDir()) / "output_file_test") {
    fs::remove_all(directory_);
    fs::create_directories(directory_);
  }
  ~OutputFileTest() override {
    fs::remove_all(directory_);
    unsetenv("PLUMBLINE_WORKING_DIRECTORY");
    unsetenv("BUILD_WORKING_DIRECTORY");
  }
  std::string Read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(directory_ / name).rdbuf();
    return text.str();
  }
  int Files() const {
    return static_cast<int>(
        std::distance(fs::directory_iterator(directory_), fs::directory_iterator()));
  }

  const fs::path directory_;
};

TEST_F(OutputFileTest, WritesWholeFilesAndReplacesOlderOnes) {
  WriteFileAtomically("--svg", directory_ / "a", "one");
  WriteFileAtomically("--svg", directory_ / "a", std::string(1 << 20, 'x'));
  EXPECT_EQ(Read("a"), std::string(1 << 20, 'x'));
  EXPECT_EQ(Files(), 1);
}

TEST_F(OutputFileTest, RelativePathsCountFromWhereThePersonIs) {
  setenv("BUILD_WORKING_DIRECTORY", "/nonexistent", 1);
  setenv("PLUMBLINE_WORKING_DIRECTORY", directory_.c_str(), 1);
  WriteFileAtomically("--svg", "b", "two");
  EXPECT_EQ(Read("b"), "two");
  unsetenv("PLUMBLINE_WORKING_DIRECTORY");
  setenv("BUILD_WORKING_DIRECTORY", directory_.c_str(), 1);
  WriteFileAtomically("--svg", "c", "three");
  EXPECT_EQ(Read("c"), "three");
}

TEST_F(OutputFileTest, FailureNamesFlagAndFileAndLeavesNothing) {
  const auto error_of = [](const std::string& path) -> std::string {
    try {
      WriteFileAtomically("--svg", path, "text");
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  const std::string missing = directory_ / "missing" / "a";
  EXPECT_EQ(error_of(missing), "--svg " + missing + ": No such file or directory");
  EXPECT_EQ(error_of(directory_), "--svg " + directory_.string() +
                                      ": is a directory; expected a "
                                      "file");
  EXPECT_EQ(error_of(""), "--svg: expected the name of a file");
  EXPECT_EQ(Files(), 0);
}

TEST_F(OutputFileTest, WriteThatFailsHalfwayKeepsTheOlderFile) {
  WriteFileAtomically("--svg", directory_ / "a", "old");
  // No file of this process may grow beyond 10 bytes: write() then fails as on a full disk.
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit ten = {10, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &ten), 0);
  std::string error = "no error";
  try {
    WriteFileAtomically("--svg", directory_ / "a", std::string(100, 'x'));
  } catch (const IoError& caught) {
    error = caught.what();
  }
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(error, testing::HasSubstr("File too large"));
  EXPECT_EQ(Read("a"), "old");
  EXPECT_EQ(Files(), 1);
}

}  // namespace
}  // namespace plumbline
