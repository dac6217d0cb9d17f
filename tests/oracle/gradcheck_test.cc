#include "oracle/gradcheck.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "oracle/parameters.h"
#include "tests/oracle/fixtures.h"

namespace plumbline {
namespace {

constexpr double kBound = 1e-12;

std::vector<GradientCheck<double>> Check(const ModelCase& c,
                                         const GradientCheckOptions<double>& options = {}) {
  return CheckGradients(c.model, c.train, SeededParameters(c.model, c.train.seed),
                        TextBatches(c.model, c.train, RandomText(6)), options);
}

class GradcheckTest : public testing::TestWithParam<ModelCase> {};

TEST_P(GradcheckTest, JvpEqualsGradientAlongRandomDirections) {
  const std::vector<ParameterSpec> specs = ParameterSpecs(GetParam().model);
  GradientCheckOptions<double> options;
  options.directions = 2;
  const std::vector<GradientCheck<double>> checks = Check(GetParam(), options);
  ASSERT_EQ(checks.size(), specs.size());
  for (size_t i = 0; i < specs.size(); ++i) {
    EXPECT_EQ(checks[i].tensor, specs[i].name);
    EXPECT_LE(checks[i].error, kBound)
        << checks[i].tensor << ": jvp " << checks[i].jvp << ", <grad, v> " << checks[i].dot;
    EXPECT_NE(checks[i].jvp, 0) << checks[i].tensor << ": nothing was checked";
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, GradcheckTest, testing::ValuesIn(AllCases()),
                         [](const auto& info) { return info.param.name; });

// Every tensor in turn gets a wrong gradient, and it alone is flagged.
TEST(GradcheckTest, AWrongGradientIsFlaggedWhereItIs) {
  const ModelCase c = AllCases().back();
  for (const ParameterSpec& wrong : ParameterSpecs(c.model)) {
    GradientCheckOptions<double> options;
    options.edit = [&](const std::string& tensor, std::span<double> gradient) {
      if (tensor != wrong.name) return;
      for (double& value : gradient) value *= 1 + 1e-9;
    };
    for (const GradientCheck<double>& check : Check(c, options)) {
      EXPECT_EQ(!(check.error <= kBound), check.tensor == wrong.name)
          << check.tensor << " with " << wrong.name << " wrong";
    }
  }
}

struct Mistake {
  std::string name;
  std::function<void(std::span<double>)> plant;
};

class MistakeTest : public testing::TestWithParam<Mistake> {};

TEST_P(MistakeTest, IsFlagged) {
  const std::string tensor = "decoder.layers.0.self_attention.linear_qkv.weight";
  GradientCheckOptions<double> options;
  options.edit = [&](const std::string& name, std::span<double> gradient) {
    if (name == tensor) GetParam().plant(gradient);
  };
  for (const GradientCheck<double>& check : Check(Gpt2Case(), options)) {
    EXPECT_EQ(!(check.error <= kBound), check.tensor == tensor) << check.tensor;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Mistakes, MistakeTest,
    testing::Values(Mistake{"missing",
                            [](std::span<double> g) {
                              for (double& value : g) value = 0;
                            }},
                    Mistake{"sign",
                            [](std::span<double> g) {
                              for (double& value : g) value = -value;
                            }},
                    Mistake{"one_element", [](std::span<double> g) { g[5] += 1e-6; }},
                    Mistake{"swapped_elements", [](std::span<double> g) { std::swap(g[0], g[1]); }},
                    Mistake{"nan",
                            [](std::span<double> g) {
                              g[0] = std::numeric_limits<double>::quiet_NaN();
                            }}),
    [](const auto& info) { return info.param.name; });

TEST(GradcheckTest, DirectionsDependOnTheSeed) {
  GradientCheckOptions<double> options;
  const double first = Check(LlamaCase(), options)[0].jvp;
  EXPECT_EQ(Check(LlamaCase(), options)[0].jvp, first);
  options.seed = 2;
  EXPECT_NE(Check(LlamaCase(), options)[0].jvp, first);
}

}  // namespace
}  // namespace plumbline
