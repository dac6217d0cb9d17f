#include "scenarios/piece_difference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace plumbline {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

Tensor F64(const std::vector<double>& values) {
  return Tensor::FromVector(Context{}, {static_cast<int64_t>(values.size())}, values);
}

class PieceDifferenceTest : public ::testing::Test {
 protected:
  // The piece holds elements 2, 3, 4 of five.
  PieceDifference Of(const std::vector<double>& local, double factor = 1) {
    const PieceReference reference = {whole_, 8.0, exemption_, factor};
    return DifferenceOf(F64(local), {{0, 2, 3}}, reference, 1e-11);
  }

  Tensor whole_ = F64({100, 100, 1, -8, 4});
  AdamExemption exemption_;
};

TEST_F(PieceDifferenceTest, EqualPieceIsWithin) {
  const PieceDifference difference = Of({1, -8, 4});
  EXPECT_TRUE(difference.within);
  EXPECT_EQ(difference.max_abs_diff, 0);
}

TEST_F(PieceDifferenceTest, BoundIsRelativeToTheScaleAndSharp) {
  EXPECT_TRUE(Of({1 + 7.9e-11, -8, 4}).within);
  const PieceDifference difference = Of({1 + 8.1e-11, -8, 4});
  EXPECT_FALSE(difference.within);
  EXPECT_EQ(difference.index, 2);
  EXPECT_EQ(difference.actual, 1 + 8.1e-11);
  EXPECT_EQ(difference.reference, 1);
}

TEST_F(PieceDifferenceTest, WorstElementIsNamed) {
  const PieceDifference difference = Of({2, -8, 7});
  EXPECT_EQ(difference.max_abs_diff, 3);
  EXPECT_EQ(difference.index, 4);
  EXPECT_EQ(difference.first_nonfinite, -1);
}

TEST_F(PieceDifferenceTest, FactorIsApplied) {
  EXPECT_TRUE(Of({2, -16, 8}, 0.5).within);
  EXPECT_EQ(Of({4, -16, 8}, 0.5).actual, 2);
}

TEST_F(PieceDifferenceTest, NanAndInfinityNeverPass) {
  for (const double bad : {kNan, -kNan, kInf, -kInf}) {
    const PieceDifference difference = Of({1, bad, 4});
    EXPECT_FALSE(difference.within) << bad;
    EXPECT_EQ(difference.max_abs_diff, kInf) << bad;
    EXPECT_EQ(difference.first_nonfinite, 3) << bad;
  }
}

TEST_F(PieceDifferenceTest, FirstOfSeveralNansIsNamed) {
  EXPECT_EQ(Of({kNan, -8, kNan}).first_nonfinite, 2);
}

TEST_F(PieceDifferenceTest, NanMatchesOnlyNanAndInfinityItself) {
  whole_ = F64({0, 0, kNan, kInf, 4});
  EXPECT_TRUE(Of({kNan, kInf, 4}).within);
  EXPECT_FALSE(Of({kNan, -kInf, 4}).within);
  EXPECT_FALSE(Of({0, kInf, 4}).within);
  EXPECT_EQ(Of({0, kInf, 4}).first_nonfinite, -1);
}

TEST_F(PieceDifferenceTest, ExemptionCoversItsElementsOnly) {
  exemption_.extra =
      std::make_shared<std::vector<float>>(std::vector<float>{0, 0, 1e-6F, 0, 1e-6F});
  EXPECT_TRUE(Of({1 + 9e-7, -8, 4}).within);
  EXPECT_LT(Of({1 + 9e-7, -8, 4}).max_abs_diff, 1e-11) << "what is exempt does not count as worst";
  EXPECT_FALSE(Of({1 + 2e-6, -8, 4}).within);
  EXPECT_FALSE(Of({1, -8 + 9e-7, 4}).within);
}

TEST_F(PieceDifferenceTest, ScaleZeroDemandsZero) {
  whole_ = F64({0, 0, 0, 0, 0});
  const PieceReference reference = {whole_, 0.0, exemption_, 1.0};
  EXPECT_TRUE(DifferenceOf(F64({0, -0.0, 0}), {{0, 2, 3}}, reference, 1e-11).within);
  EXPECT_FALSE(DifferenceOf(F64({0, 1e-300, 0}), {{0, 2, 3}}, reference, 1e-11).within);
}

TEST_F(PieceDifferenceTest, F32IsComparedInF64) {
  const Tensor local = Tensor::FromVector(Context{}, {3}, std::vector<float>{1, -8, 4.001F});
  const PieceReference reference = {whole_, 8.0, exemption_, 1.0};
  EXPECT_TRUE(DifferenceOf(local, {{0, 2, 3}}, reference, 2e-4).within);
  EXPECT_FALSE(DifferenceOf(local, {{0, 2, 3}}, reference, 1e-4).within);
}

template <class T>
PieceDifference OfHalf(const std::vector<double>& local, const PieceReference& reference,
                       double bound) {
  const Tensor narrow = Tensor::FromVector(Context{}, {static_cast<int64_t>(local.size())},
                                           std::vector<T>(local.begin(), local.end()));
  return DifferenceOf(narrow, {{0, 2, 3}}, reference, bound);
}

TEST_F(PieceDifferenceTest, HalvesAreComparedInF64) {
  const PieceReference reference = {whole_, 8.0, exemption_, 0.5};
  for (const auto& of : {OfHalf<BF16>, OfHalf<F16>}) {
    EXPECT_EQ(of({2, -16, 8}, reference, 0).max_abs_diff, 0);
    const PieceDifference difference = of({2, -16, 8.5}, reference, 0.03);
    EXPECT_FALSE(difference.within);
    EXPECT_EQ(difference.max_abs_diff, 0.25);
    EXPECT_EQ(difference.index, 4);
    EXPECT_TRUE(of({2, -16, 8.5}, reference, 0.032).within);
    EXPECT_EQ(of({2, kNan, 8}, reference, 1).first_nonfinite, 3);
  }
}

// Each element is held against its own allowance; the worst is what takes most of it.
TEST_F(PieceDifferenceTest, AllowancesAreByGlobalIndex) {
  const std::vector<float> allowance = {9, 9, 0.5F, 2, 0};
  const PieceReference reference = {whole_, 8.0, exemption_, 1.0, 1, &allowance};
  const auto of = [&](const std::vector<double>& local) {
    return DifferenceOf(F64(local), {{0, 2, 3}}, reference, 0x1p-10);  // 1/128 of the scale
  };
  EXPECT_EQ(of({1, -8, 4}).max_abs_diff, 0);
  const PieceDifference within = of({1.4, -7, 4});
  EXPECT_TRUE(within.within);
  EXPECT_DOUBLE_EQ(within.max_abs_diff, 1.4 - 1);  // 0.4 of 0.5, where the other is 1 of 2
  EXPECT_EQ(within.allowed, 0.5 + 0x1p-7);
  const PieceDifference beyond = of({1, -7, 4.01});
  EXPECT_FALSE(beyond.within);
  EXPECT_EQ(beyond.index, 4);
  EXPECT_EQ(beyond.allowed, 0x1p-7);
  EXPECT_FALSE(of({1, -5.9, 4}).within);
  EXPECT_TRUE(of({1, -6, 4}).within);
  for (const double bad : {kNan, kInf, -kInf}) {
    EXPECT_FALSE(of({1, bad, 4}).within);
    EXPECT_EQ(of({1, bad, 4}).first_nonfinite, 3);
  }
}

TEST_F(PieceDifferenceTest, RunsOutOfOrderAreFollowed) {
  const PieceReference reference = {whole_, 8.0, exemption_, 1.0};
  const std::vector<IndexRun> runs = {{0, 4, 1}, {2, 2, 2}};  // element 1 of the piece is padding
  EXPECT_TRUE(DifferenceOf(F64({4, kNan, 1, -8}), runs, reference, 1e-11).within);
}

}  // namespace
}  // namespace plumbline
