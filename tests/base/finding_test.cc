#include "base/finding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string>

#include "base/error.h"

namespace plumbline {
namespace {

TEST(FindingTest, ClassNamesAreDistinctSnakeCase) {
  std::set<std::string> names;
  for (int i = 0; i <= static_cast<int>(FindingClass::kDeadlock); ++i) {
    const std::string name(Name(static_cast<FindingClass>(i)));
    EXPECT_TRUE(std::all_of(name.begin(), name.end(), [](unsigned char c) {
      return std::islower(c) != 0 || c == '_';
    })) << name;
    names.insert(name);
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(FindingClass::kDeadlock) + 1);
  EXPECT_EQ(Name(FindingClass::kValueMismatch), "value_mismatch");
  EXPECT_EQ(Name(FindingClass::kDeadlock), "deadlock");
}

TEST(FindingTest, ClassOutsideTheListIsABug) {
  EXPECT_THROW(Name(static_cast<FindingClass>(99)), Internal);
}

}  // namespace
}  // namespace plumbline
