#include "scenarios/accumulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "kernels/elementwise.h"

namespace plumbline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Site At(int step, int microbatch, const std::string& parameter = "w") {
  Site site;
  site.step = step;
  site.microbatch = microbatch;
  site.phase = Phase::kBackward;
  site.quantity = Quantity::kMainGrad;
  site.tensor = parameter;
  return site;
}

template <class T>
Tensor Of(const std::vector<double>& values) {
  return Tensor::FromVector<T>(Context{}, {static_cast<int64_t>(values.size())},
                               std::vector<T>(values.begin(), values.end()));
}

// Adds bf16 gradients to a main_grad of this dtype, showing each addition.
class Adder {
 public:
  Adder(AccumulationChecker& checker, int rank, DType dtype)
      : checker_(checker), rank_(rank), main_grad_(Tensor::Zeros(Context{}, dtype, {2})) {}
  void Zero() { main_grad_.FillZero(); }
  void Add(const Site& site, const std::vector<double>& gradient) {
    const Tensor narrow = Of<BF16>(gradient);
    AddInto(Context{}, main_grad_, narrow);
    checker_.Observe(rank_, site, narrow, main_grad_);
  }

 private:
  AccumulationChecker& checker_;
  int rank_;
  Tensor main_grad_;
};

constexpr double kUnit = 0x1p-8;  // bf16: 1 + kUnit is 1

TEST(AccumulationTest, SumsInOrderAreSilent) {
  for (DType due : {DType::kF32, DType::kBF16}) {
    AccumulationChecker checker(due);
    Adder adder(checker, 0, due);
    for (int step : {1, 2}) {
      adder.Zero();
      for (int microbatch = 0; microbatch < 5; ++microbatch) {
        adder.Add(At(step, microbatch), {1 + microbatch * 0.37, kUnit});
      }
    }
    EXPECT_THAT(checker.faults(), IsEmpty());
  }
}

TEST(AccumulationTest, AnotherOrderIsFlagged) {
  AccumulationChecker checker(DType::kF32);
  const Tensor large = Of<BF16>({1, 1});
  const Tensor small = Of<BF16>({0x1p-24, 0x1p-24});
  checker.Observe(0, At(1, 0), small, Of<float>({0x1p-24, 0x1p-24}));
  checker.Observe(0, At(1, 1), small, Of<float>({0x1p-23, 0x1p-23}));
  checker.Observe(0, At(1, 2), large, Of<float>({1, 1 + 0x1p-23}));  // [0]: 1 first
  ASSERT_THAT(checker.faults(), SizeIs(1));
  EXPECT_EQ(checker.faults()[0].site, At(1, 2));
  EXPECT_THAT(checker.faults()[0].what, HasSubstr("f32 main_grad holds 1 at [0]"));
  EXPECT_THAT(checker.faults()[0].what, HasSubstr("1.00000011920"));
}

TEST(AccumulationTest, SumIn16BitsIsFlaggedWhereItFirstRounds) {
  AccumulationChecker checker(DType::kF32);
  Adder adder(checker, 0, DType::kBF16);
  adder.Add(At(1, 0), {1, 1});
  adder.Add(At(1, 1), {1, 2});  // exact in both
  EXPECT_THAT(checker.faults(), IsEmpty());
  adder.Add(At(1, 2), {0, kUnit});
  ASSERT_THAT(checker.faults(), SizeIs(1));
  EXPECT_EQ(checker.faults()[0].site, At(1, 2));
  EXPECT_THAT(checker.faults()[0].what,
              HasSubstr("bf16 main_grad holds 3 at [1] of this rank's piece"));
}

TEST(AccumulationTest, BufferThatWasNotZeroedIsFlaggedAtTheFirstAddition) {
  AccumulationChecker checker(DType::kF32);
  Adder adder(checker, 0, DType::kF32);
  adder.Add(At(1, 0), {1, 2});
  adder.Add(At(2, 0), {1, 2});
  ASSERT_THAT(checker.faults(), SizeIs(1));
  EXPECT_EQ(checker.faults()[0].site, At(2, 0));
}

TEST(AccumulationTest, BufferThatIsZeroedInBetweenIsFlaggedAtTheNextAddition) {
  AccumulationChecker checker(DType::kF32);
  Adder adder(checker, 0, DType::kF32);
  adder.Add(At(1, 0), {1, 2});
  adder.Zero();
  adder.Add(At(1, 1), {1, 2});
  ASSERT_THAT(checker.faults(), SizeIs(1));
  EXPECT_EQ(checker.faults()[0].site, At(1, 1));
}

TEST(AccumulationTest, NaNThatWasAddedIsNoFault) {
  AccumulationChecker checker(DType::kF32);
  Adder adder(checker, 0, DType::kF32);
  adder.Add(At(1, 0), {std::numeric_limits<double>::quiet_NaN(), 1});
  adder.Add(At(1, 1), {1, std::numeric_limits<double>::infinity()});
  adder.Add(At(1, 2), {1, -std::numeric_limits<double>::infinity()});
  EXPECT_THAT(checker.faults(), IsEmpty());
}

TEST(AccumulationTest, EachRankAndParameterIsReportedOnceAndRanksTogether) {
  AccumulationChecker checker(DType::kF32);
  Adder first(checker, 0, DType::kBF16);
  Adder second(checker, 3, DType::kBF16);
  Adder right(checker, 1, DType::kF32);
  Adder other(checker, 0, DType::kBF16);
  for (int microbatch = 0; microbatch < 4; ++microbatch) {
    for (Adder* adder : {&first, &second, &right})
      adder->Add(At(1, microbatch), {1, 1 + 2 * kUnit});
    other.Add(At(1, microbatch, "v"), {1, 1});
  }
  ASSERT_THAT(checker.faults(), SizeIs(1));
  EXPECT_THAT(checker.faults()[0].ranks, ElementsAre(0, 3));
}

TEST(AccumulationTest, MainGradOfAnotherShapeIsFlagged) {
  AccumulationChecker checker(DType::kF32);
  checker.Observe(0, At(1, 0), Of<BF16>({1, 2}), Of<float>({1, 2, 3}));
  ASSERT_THAT(checker.faults(), SizeIs(1));
  EXPECT_THAT(checker.faults()[0].what, HasSubstr("shape [3], the gradients [2]"));
}

}  // namespace
}  // namespace plumbline
