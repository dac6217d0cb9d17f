// The oracle over a prime field: its gradients equal derivatives of its forward without a
// tolerance.
#include <gtest/gtest.h>

#include "base/field.h"
#include "oracle/gradcheck.h"
#include "oracle/parameters.h"
#include "tests/oracle/fixtures.h"

namespace plumbline {
namespace {

std::vector<GradientCheck<M61>> Check(const ModelCase& c, uint64_t key,
                                      const GradientCheckOptions<M61>& options = {}) {
  CurrentFieldRun() = {key, 0};
  std::vector<GradientCheck<M61>> checks =
      CheckGradients(c.model, c.train, SeededParameters(c.model, c.train.seed),
                     TextBatches(c.model, c.train, RandomText(6)), options);
  EXPECT_EQ(CurrentFieldRun().divisions_by_zero, 0);
  return checks;
}

class ExactGradcheckTest : public testing::TestWithParam<ModelCase> {};

TEST_P(ExactGradcheckTest, EveryTensorIsEqual) {
  const std::vector<ParameterSpec> specs = ParameterSpecs(GetParam().model);
  for (const uint64_t key : {1, 2, 3}) {
    const std::vector<GradientCheck<M61>> checks = Check(GetParam(), key);
    ASSERT_EQ(checks.size(), specs.size());
    for (size_t i = 0; i < specs.size(); ++i) {
      EXPECT_EQ(checks[i].tensor, specs[i].name);
      EXPECT_EQ(checks[i].jvp.v, checks[i].dot.v) << checks[i].tensor;
      EXPECT_EQ(checks[i].error, 0) << checks[i].tensor;
      EXPECT_NE(checks[i].jvp.v, 0U) << checks[i].tensor << ": nothing was checked";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, ExactGradcheckTest, testing::ValuesIn(AllCases()),
                         [](const auto& info) { return info.param.name; });

// One element of each tensor in turn is off by one part in 10^18, and that tensor alone differs.
TEST(ExactGradcheckTest, AWrongGradientIsFoundWhereItIs) {
  const ModelCase c = AllCases().back();
  for (const ParameterSpec& wrong : ParameterSpecs(c.model)) {
    GradientCheckOptions<M61> options;
    options.edit = [&](const std::string& tensor, std::span<M61> gradient) {
      if (tensor == wrong.name) gradient[0] += ScalarTraits<M61>::FromDouble(1e-18);
    };
    for (const GradientCheck<M61>& check : Check(c, 1, options)) {
      EXPECT_EQ(check.error != 0, check.tensor == wrong.name)
          << check.tensor << " with " << wrong.name << " wrong";
    }
  }
}

}  // namespace
}  // namespace plumbline
