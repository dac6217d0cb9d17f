#include "kernels/optimizer.h"

#include <cmath>
#include <vector>

#include "tests/kernels/operator_test_util.h"

namespace plumbline {
namespace {

using testing::Bound;
using testing::DeviationFrom;
using testing::kContext;
using testing::Random;
using testing::Wide;
using testing::WideValues;

constexpr int64_t kSteps = 4;

AdamOptions Adam() {
  return {.lr = 0.01, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-3, .weight_decay = 0.1, .step = 1};
}

// Mistakes of an Adam that must lie outside the bounds.
struct AdamVariant {
  int64_t first_step = 1;
  bool decay_after = false;    // the decay reads the updated parameter
  bool coupled_decay = false;  // Adam with L2 instead of AdamW
  bool eps_inside = false;     // sqrt(v + eps)
  bool scale_gradient = true;
};

struct AdamState {
  std::vector<Wide> p, m, v;
};

template <class T>
AdamState AdamReference(int64_t n, const AdamOptions& options, Wide scale,
                        const AdamVariant& variant) {
  AdamState state = {WideValues<T>(Random<T>({n}, "parameter")), std::vector<Wide>(n, 0),
                     std::vector<Wide>(n, 0)};
  // The operator's coefficients are the doubles that the options hold, rounded to T.
  const Wide b1 = static_cast<T>(options.beta1), b2 = static_cast<T>(options.beta2);
  const Wide lr = static_cast<T>(options.lr), eps = static_cast<T>(options.eps),
             wd = static_cast<T>(options.weight_decay);
  for (int64_t step = 0; step < kSteps; ++step) {
    const std::vector<Wide> g = WideValues<T>(Random<T>({n}, fmt::format("gradient {}", step)));
    const Wide t = static_cast<Wide>(step + variant.first_step);
    for (int64_t i = 0; i < n; ++i) {
      Wide gradient = variant.scale_gradient ? g[i] * scale : g[i];
      if (variant.coupled_decay) gradient += wd * state.p[i];
      state.m[i] = b1 * state.m[i] + (1 - b1) * gradient;
      state.v[i] = b2 * state.v[i] + (1 - b2) * gradient * gradient;
      const Wide second = state.v[i] / (1 - std::pow(b2, t));
      const Wide root = variant.eps_inside ? std::sqrt(second + eps) : std::sqrt(second) + eps;
      const Wide update = lr * (state.m[i] / (1 - std::pow(b1, t))) / root;
      if (variant.decay_after) {
        state.p[i] -= update;
        state.p[i] -= lr * wd * state.p[i];
      } else {
        state.p[i] -= (variant.coupled_decay ? 0 : lr * wd * state.p[i]) + update;
      }
    }
  }
  return state;
}

struct AdamTensors {
  Tensor p, m, v;
};

template <class T>
AdamTensors RunAdam(int64_t n, AdamOptions options, const Tensor& scale) {
  AdamTensors state = {Random<T>({n}, "parameter"), Tensor::Zeros(kContext, kDTypeOf<T>, {n}),
                       Tensor::Zeros(kContext, kDTypeOf<T>, {n})};
  for (int64_t step = 0; step < kSteps; ++step) {
    options.step = step + 1;
    AdamStep(kContext, state.p, Random<T>({n}, fmt::format("gradient {}", step)), state.m, state.v,
             options, scale);
  }
  return state;
}

template <class T>
class OptimizerTest : public ::testing::Test {};
TYPED_TEST_SUITE(OptimizerTest, testing::ScalarTypes, testing::ScalarNames);

TYPED_TEST(OptimizerTest, AdamIsTheFormulaAndNoneOfItsMistakes) {
  using T = TypeParam;
  const Tensor scale = Tensor::FromVector<T>(kContext, {}, {T(0.4)});
  for (int64_t n : {0, 1, 7, 100}) {
    const AdamTensors state = RunAdam<T>(n, Adam(), scale);
    const AdamState expected = AdamReference<T>(n, Adam(), static_cast<T>(0.4), {});
    EXPECT_LE(DeviationFrom<T>(state.p, expected.p), Bound<T>(kSteps * 4));
    EXPECT_LE(DeviationFrom<T>(state.m, expected.m), Bound<T>(kSteps * 4));
    EXPECT_LE(DeviationFrom<T>(state.v, expected.v), Bound<T>(kSteps * 4));
    if (n < 100) continue;
    for (const AdamVariant& wrong : std::vector<AdamVariant>{{.first_step = 0},
                                                             {.first_step = 2},
                                                             {.decay_after = true},
                                                             {.coupled_decay = true},
                                                             {.eps_inside = true},
                                                             {.scale_gradient = false}}) {
      EXPECT_FALSE(
          DeviationFrom<T>(state.p, AdamReference<T>(n, Adam(), static_cast<T>(0.4), wrong).p) <=
          Bound<T>(kSteps * 4));
    }
  }
}

TYPED_TEST(OptimizerTest, WithoutAScaleTheGradientIsTaken) {
  using T = TypeParam;
  const AdamTensors state = RunAdam<T>(20, Adam(), Tensor());
  EXPECT_LE(DeviationFrom<T>(state.p, AdamReference<T>(20, Adam(), 1, {}).p), Bound<T>(kSteps * 4));
  const AdamTensors scaled = RunAdam<T>(20, Adam(), Tensor::FromVector<T>(kContext, {}, {T(1)}));
  EXPECT_THAT(scaled.p, testing::BitEquals(state.p));
}

TYPED_TEST(OptimizerTest, AShardIsUpdatedAsWithinTheWhole) {
  using T = TypeParam;
  const Tensor gradient = Random<T>({30}, "g");
  Tensor p = Random<T>({30}, "p"), m = Random<T>({30}, "m"),
         v = Tensor::Zeros(kContext, kDTypeOf<T>, {30});
  Tensor p_part = p.Slice(0, 11, 24).Clone(kContext), m_part = m.Slice(0, 11, 24).Clone(kContext),
         v_part = v.Slice(0, 11, 24).Clone(kContext);
  AdamStep(kContext, p, gradient, m, v, Adam(), Tensor());
  AdamStep(kContext, p_part, gradient.Slice(0, 11, 24), m_part, v_part, Adam(), Tensor());
  EXPECT_THAT(p_part, testing::BitEquals(p.Slice(0, 11, 24).Clone(kContext)));
  EXPECT_THAT(m_part, testing::BitEquals(m.Slice(0, 11, 24).Clone(kContext)));
  EXPECT_THAT(v_part, testing::BitEquals(v.Slice(0, 11, 24).Clone(kContext)));
}

TYPED_TEST(OptimizerTest, SgdIsTheFormulaWithAndWithoutMomentum) {
  using T = TypeParam;
  for (double momentum : {0.0, 0.9}) {
    for (int64_t n : {0, 1, 50}) {
      Tensor p = Random<T>({n}, "parameter");
      // On step 1 the buffer's contents don't matter.
      Tensor buffer = momentum == 0 ? Tensor() : Tensor::Empty(kContext, kDTypeOf<T>, {n});
      std::vector<Wide> expected = WideValues<T>(p), velocity(n, 0), dampened = expected,
                        slow(n, 0);
      const Wide mu = static_cast<T>(momentum), lr = static_cast<T>(0.05), wd = static_cast<T>(0.1);
      const Tensor scale = Tensor::FromVector<T>(kContext, {}, {T(0.4)});
      for (int64_t step = 1; step <= kSteps; ++step) {
        const Tensor g = Random<T>({n}, fmt::format("gradient {}", step));
        SgdStep(kContext, p, g, buffer,
                {.lr = 0.05, .momentum = momentum, .weight_decay = 0.1, .step = step}, scale);
        const std::vector<Wide> gradient = WideValues<T>(g);
        for (int64_t i = 0; i < n; ++i) {
          velocity[i] = mu * velocity[i] + gradient[i] * static_cast<T>(0.4) + wd * expected[i];
          expected[i] -= lr * velocity[i];
          slow[i] =
              mu * slow[i] + (1 - mu) * (gradient[i] * static_cast<T>(0.4) + wd * dampened[i]);
          dampened[i] -= lr * slow[i];
        }
      }
      EXPECT_LE(DeviationFrom<T>(p, expected), Bound<T>(kSteps * 4)) << momentum << " " << n;
      if (n == 50 && momentum != 0) {
        EXPECT_GT(DeviationFrom<T>(p, dampened), 1e-3);
      }
    }
  }
}

TYPED_TEST(OptimizerTest, NanStaysInItsElement) {
  using T = TypeParam;
  const Tensor g = testing::WithNan<T>(Random<T>({9}, "g"), 4);
  Tensor p = Random<T>({9}, "p"), m = Tensor::Zeros(kContext, kDTypeOf<T>, {9}),
         v = Tensor::Zeros(kContext, kDTypeOf<T>, {9});
  AdamStep(kContext, p, g, m, v, Adam(), Tensor());
  EXPECT_EQ(testing::NanElements<T>(p), std::vector<int64_t>{4});
  Tensor q = Random<T>({9}, "p"), none;
  SgdStep(kContext, q, g, none, {.lr = 1}, Tensor());
  EXPECT_EQ(testing::NanElements<T>(q), std::vector<int64_t>{4});
}

TEST(OptimizerErrorsTest, ShapesAndDTypesMustAgree) {
  Tensor p = Random<double>({4}, "p"), m = Random<double>({4}, "m"), v = Random<double>({3}, "v");
  EXPECT_THROW(AdamStep(kContext, p, p, m, v, Adam(), Tensor()), InvalidArgument);
  EXPECT_THROW(AdamStep(kContext, p, p, m, m, Adam(), p), InvalidArgument);
  EXPECT_THROW(SgdStep(kContext, p, v, m, {}, Tensor()), InvalidArgument);
  EXPECT_THROW(SgdStep(kContext, p, p, v, {.momentum = 0.9}, Tensor()), InvalidArgument);
}

}  // namespace
}  // namespace plumbline
