#include "oracle/dual.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "base/rng.h"

namespace plumbline {
namespace {

using D = Dual<double>;
using S = ScalarTraits<D>;

// The derivative of f at x by central differences, for smooth f of size about 1: truncation h^2 and
// rounding 1e-16 / h are both near 1e-10.
double Slope(const std::function<D(D)>& f, double x) {
  constexpr double kStep = 1e-5;
  return (f(D(x + kStep)).value - f(D(x - kStep)).value) / (2 * kStep);
}

struct Function {
  std::string name;
  std::function<D(D)> f;
};

class DualTest : public testing::TestWithParam<Function> {};

TEST_P(DualTest, TangentIsTheSlopeTimesTheDirection) {
  const RandomStream stream = DataStream(3, GetParam().name);
  for (uint64_t i = 0; i < 50; ++i) {
    const double x = 0.1 + 3 * stream.Uniform(2 * i);
    const double direction = stream.Normal(2 * i + 1);
    const D y = GetParam().f(D(x, direction));
    EXPECT_EQ(y.value, GetParam().f(D(x)).value);
    EXPECT_EQ(GetParam().f(D(x)).tangent, 0);
    const double slope = Slope(GetParam().f, x);
    EXPECT_NEAR(y.tangent, slope * direction, 1e-8 * (1 + std::abs(slope * direction))) << x;
  }
}

const D kTwo(2.0);

INSTANTIATE_TEST_SUITE_P(
    Functions, DualTest,
    testing::Values(
        Function{"plus", [](D x) { return x + x + kTwo; }},
        Function{"minus", [](D x) { return kTwo - x - (-x) * kTwo; }},
        Function{"times", [](D x) { return x * x * kTwo; }},
        Function{"divide", [](D x) { return (x + kTwo) / (x * x + kTwo); }},
        Function{"compound",
                 [](D x) {
                   D y = x;
                   y += kTwo;
                   y *= x;
                   y -= x * x;
                   y /= x + kTwo;
                   return y;
                 }},
        Function{"sqrt", [](D x) { return S::Sqrt(x); }},
        Function{"sigmoid", [](D x) { return S::Sigmoid(x - kTwo); }},
        Function{"tanh", [](D x) { return S::Tanh(x - kTwo); }},
        Function{"normal_cdf", [](D x) { return S::NormalCdf(x - kTwo); }},
        Function{"normal_pdf", [](D x) { return S::NormalPdf(x - kTwo); }},
        Function{"relu", [](D x) { return S::Relu(x) * x; }},
        Function{"clip", [](D x) { return S::ClipCoefficient(D(0.05), x); }},
        Function{"exp", [](D x) { return S::ExpShifted(S::ToScore(-x), S::ToScore(x)); }},
        Function{"probability",
                 [](D x) {
                   const auto sum = S::MakeLogSum(S::ToScore(x), kTwo + x);
                   return S::Probability(S::ToScore(x * x), sum);
                 }},
        Function{"log", [](D x) { return S::Log(S::MakeLogSum(S::ToScore(x * x), x + kTwo)); }},
        Function{"log_add",
                 [](D x) {
                   const auto a = S::MakeLogSum(S::ToScore(x * x), x + kTwo);
                   const auto b = S::MakeLogSum(S::ToScore(x), kTwo);
                   return S::Log(S::LogAdd(a, b));
                 }},
        Function{"weight",
                 [](D x) {
                   const auto a = S::MakeLogSum(S::ToScore(x), x + kTwo);
                   const auto b = S::MakeLogSum(S::ToScore(x * x), kTwo);
                   return S::Weight(a, b);
                 }}),
    [](const auto& info) { return info.param.name; });

TEST(DualTest, FlatPartsHaveNoTangent) {
  EXPECT_EQ(S::Relu(D(-1, 5)), D(0.0, 0.0));
  EXPECT_EQ(S::Step(D(1, 5)), D(1.0, 0.0));
  EXPECT_EQ(S::ClipCoefficient(D(1.0), D(0.5, 5)), D(1.0, 0.0));
  EXPECT_EQ(S::FromInt(3), D(3.0, 0.0));
  EXPECT_EQ(S::FromDouble(0.5), D(0.5, 0.0));
}

// The shift has no tangent, whichever score it came from: it cancels.
TEST(DualTest, SoftmaxDoesNotDependOnItsShift) {
  const S::Score a = S::ToScore(D(1.0, 0.7));
  const S::Score b = S::ToScore(D(2.0, -0.3));
  const auto total = [&](const S::Score& shift) {
    return S::Log(S::MakeLogSum(shift, S::ExpShifted(a, shift) + S::ExpShifted(b, shift)));
  };
  const D by_max = total(S::Max(a, b));
  const D by_a = total(a);
  EXPECT_NEAR(by_max.value, by_a.value, 1e-15);
  EXPECT_NEAR(by_max.tangent, by_a.tangent, 1e-15);
  EXPECT_EQ(S::ExpShifted(S::LowestScore(), a), D(0.0, 0.0));
}

TEST(DualTest, MatricesMultiplyByTheProductRule) {
  using M = Eigen::Matrix<D, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  M a(2, 2), b(2, 1);
  a << D(1, 10), D(2, 20), D(3, 30), D(4, 40);
  b << D(5, 50), D(6, 60);
  const M c = a * b;
  EXPECT_EQ(c(0, 0), D(17, 10 * 5 + 1 * 50 + 20 * 6 + 2 * 60));
  EXPECT_EQ(c(1, 0), D(39, 30 * 5 + 3 * 50 + 40 * 6 + 4 * 60));
}

}  // namespace
}  // namespace plumbline
