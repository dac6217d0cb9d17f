// The rewrites of docs/exact_mode.md that look the same and are not: float64 agrees, a field does
// not.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/field.h"
#include "base/rng.h"
#include "base/scalar.h"
#include "scenarios/verify.h"
#include "tests/scenarios/attention_plants.h"
#include "tests/scenarios/plants.h"
#include "tests/scenarios/scenario_testing.h"

namespace plumbline {
namespace {

constexpr int kDraws = 50;
constexpr double kTolerance = 1e-6;  // 0.1f is 1e-8 from 0.1

double DrawOf(double, const RandomStream& stream, uint64_t i) { return 0.5 + stream.Uniform(i); }
M61 DrawOf(M61, const RandomStream& stream, uint64_t i) {
  return ScalarTraits<M61>::Any(FieldFunction::kInit, stream.Bits(i));
}

double Distance(double a, double b) { return std::abs(a - b); }
double Distance(M61 a, M61 b) { return a == b ? 0 : 1; }

// Two ways to compute something from two numbers.
template <class Rewrite, class T>
double LargestDistance() {
  CurrentFieldRun() = {17, 0};
  const RandomStream stream = DataStream(3, "rewrites");
  double largest = 0;
  double smallest = 1;
  for (uint64_t i = 0; i < kDraws; ++i) {
    const T a = DrawOf(T{}, stream, 2 * i);
    const T b = DrawOf(T{}, stream, 2 * i + 1);
    const double distance = Distance(Rewrite::Right(a, b), Rewrite::Variant(a, b));
    largest = std::max(largest, distance);
    smallest = std::min(smallest, distance);
  }
  // In a field each draw tells: none was equal by chance.
  if (std::is_same_v<T, M61>) {
    EXPECT_EQ(smallest, largest);
  }
  return largest;
}

template <class Rewrite>
class ForbiddenTest : public ::testing::Test {};

struct MultiplyByARoundedThird {
  template <class T>
  static T Right(T a, T) {
    return a / ScalarTraits<T>::FromInt(3);
  }
  template <class T>
  static T Variant(T a, T) {
    return a * ScalarTraits<T>::FromDouble(1.0 / 3);
  }
};

struct PowerInDouble {
  template <class T>
  static T Right(T a, T) {
    return a / (ScalarTraits<T>::FromInt(1) - PowInt(ScalarTraits<T>::FromDouble(0.9), 3));
  }
  template <class T>
  static T Variant(T a, T) {
    return a / (ScalarTraits<T>::FromInt(1) - ScalarTraits<T>::FromDouble(std::pow(0.9, 3)));
  }
};

struct LiteralInSinglePrecision {
  template <class T>
  static T Right(T a, T) {
    return a * ScalarTraits<T>::FromDouble(0.1);
  }
  template <class T>
  static T Variant(T a, T) {
    return a * ScalarTraits<T>::FromDouble(static_cast<double>(0.1F));
  }
};

template <class T>
typename ScalarTraits<T>::LogSum LogSumOfTwo(T a, T b) {
  using Scalar = ScalarTraits<T>;
  const T one = Scalar::FromInt(1);
  return Scalar::LogAdd(Scalar::MakeLogSum(Scalar::ToScore(a), one),
                        Scalar::MakeLogSum(Scalar::ToScore(b), one));
}

struct LogSumAsANumber {
  template <class T>
  static T Right(T a, T b) {
    using Scalar = ScalarTraits<T>;
    return Scalar::Probability(Scalar::ToScore(a), LogSumOfTwo(a, b));
  }
  template <class T>
  static T Variant(T a, T b) {
    using Scalar = ScalarTraits<T>;
    const T as_number = Scalar::Log(LogSumOfTwo(a, b));
    return Scalar::ExpShifted(Scalar::ToScore(a - as_number), Scalar::ToScore(Scalar::FromInt(0)));
  }
};

struct ExpOfPartialScores {
  template <class T>
  static T Exp(T x) {
    using Scalar = ScalarTraits<T>;
    return Scalar::ExpShifted(Scalar::ToScore(x), Scalar::ToScore(Scalar::FromInt(0)));
  }
  template <class T>
  static T Right(T a, T b) {
    return Exp(a + b) / Exp(ScalarTraits<T>::FromInt(0));
  }
  template <class T>
  static T Variant(T a, T b) {
    return Exp(a) * Exp(b);
  }
};

struct SigmoidOfMinusX {
  template <class T>
  static T Right(T a, T) {
    return ScalarTraits<T>::FromInt(1) - ScalarTraits<T>::Sigmoid(a);
  }
  template <class T>
  static T Variant(T a, T) {
    return ScalarTraits<T>::Sigmoid(-a);
  }
};

struct ProductOfRoots {
  template <class T>
  static T Right(T a, T b) {
    return ScalarTraits<T>::Sqrt(a * b);
  }
  template <class T>
  static T Variant(T a, T b) {
    return ScalarTraits<T>::Sqrt(a) * ScalarTraits<T>::Sqrt(b);
  }
};

using Rewrites =
    ::testing::Types<MultiplyByARoundedThird, PowerInDouble, LiteralInSinglePrecision,
                     LogSumAsANumber, ExpOfPartialScores, SigmoidOfMinusX, ProductOfRoots>;
TYPED_TEST_SUITE(ForbiddenTest, Rewrites);

TYPED_TEST(ForbiddenTest, LooksRightInFloat64AndIsFlaggedInAField) {
  EXPECT_LT((LargestDistance<TypeParam, double>()), kTolerance);
  EXPECT_EQ((LargestDistance<TypeParam, M61>()), 1);
}

// Rewrites that are the same in a field too.
struct HalfOfASum {
  template <class T>
  static T Right(T a, T b) {
    return (a + b) / ScalarTraits<T>::FromInt(4);
  }
  template <class T>
  static T Variant(T a, T b) {
    return ScalarTraits<T>::FromDouble(0.25) * b + ScalarTraits<T>::FromDouble(0.25) * a;
  }
};

struct AnotherShiftOfTheMaximum {
  template <class T>
  static T Right(T a, T b) {
    using Scalar = ScalarTraits<T>;
    return Scalar::Probability(Scalar::ToScore(a), LogSumOfTwo(a, b));
  }
  template <class T>
  static T Variant(T a, T b) {
    using Scalar = ScalarTraits<T>;
    const auto shift = Scalar::ToScore(b);
    const T of_a = Scalar::ExpShifted(Scalar::ToScore(a), shift);
    return of_a / (of_a + Scalar::ExpShifted(shift, shift));
  }
};

template <class Rewrite>
class AllowedTest : public ::testing::Test {};
using SameRewrites = ::testing::Types<HalfOfASum, AnotherShiftOfTheMaximum>;
TYPED_TEST_SUITE(AllowedTest, SameRewrites);

TYPED_TEST(AllowedTest, IsTheSame) {
  EXPECT_LT((LargestDistance<TypeParam, double>()), 1e-14);
  EXPECT_EQ((LargestDistance<TypeParam, M61>()), 0);
}

// The same inside a training step: float64 passes, exact mode names the place.
struct InAStep {
  std::string name;
  Plant plant;
  std::string site;
};

std::vector<InAStep> Steps() {
  const auto gradients = [](const CollectiveCall& call, int) {
    return call.site.quantity == Quantity::kMainGrad && call.reduce_op == ReduceOp::kSum;
  };
  return {{"MeanByARoundedThird",
           [=](Scenario& scenario) {
             scenario.policies.data_parallel.reduce_op_per_microbatch = ReduceOp::kSum;
             OnEveryRank([=] { return ScaleResult(gradients, 1.0 / 3); })(scenario);
           },
           "step 1 finalize embedding.word_embeddings.weight main_grad"},
          {"AttentionByExpOfALog",
           [](Scenario& scenario) { scenario.policies.attention_forward = DivideByExpOfLog; },
           "step 1 microbatch 0 forward decoder.layers.0.self_attention.core_attention value"}};
}

TEST(ForbiddenInAStepTest, LooksRightInFloat64AndIsPlacedInAField) {
  for (const InAStep& step : Steps()) {
    NamedModel model = NamedModels()[4];
    model.model.attention_dropout = 0;
    Scenario scenario = MakeScenario(model, {1, 3, false});
    step.plant(scenario);
    const Verdict in_double = VerifyText(scenario);
    EXPECT_TRUE(in_double.pass) << step.name << "\n" << Describe(in_double);
    scenario.config.dtype = DType::kM61;
    const Verdict exact = VerifyText(scenario);
    ASSERT_FALSE(exact.findings.empty()) << step.name;
    EXPECT_EQ(ToString(exact.findings.front().site), step.site) << Describe(exact);
  }
}

}  // namespace
}  // namespace plumbline
