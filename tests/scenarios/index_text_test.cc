#include "scenarios/index_text.h"

#include <gtest/gtest.h>

namespace plumbline {
namespace {

TEST(IndexTextTest, CoordinatesAreRowMajor) {
  EXPECT_EQ(IndexText(0, {2, 3, 4}), "[0, 0, 0]");
  EXPECT_EQ(IndexText(23, {2, 3, 4}), "[1, 2, 3]");
  EXPECT_EQ(IndexText(5, {7}), "[5]");
}

TEST(IndexTextTest, ScalarsAndNoIndexHaveNoText) {
  EXPECT_EQ(IndexText(0, {}), "");
  EXPECT_EQ(IndexText(-1, {2}), "");
}

}  // namespace
}  // namespace plumbline
