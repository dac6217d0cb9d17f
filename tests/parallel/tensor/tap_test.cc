#include "parallel/tensor/tap.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "parallel/comm/world.h"
#include "parallel/tensor/parameter.h"
#include "tests/parallel/tensor/module_world.h"

namespace plumbline {
namespace {

class LastShown : public Probe {
 public:
  void Observe(const Site& site, const ObservedLayout& layout, const Tensor& local) override {
    text = ToString(site) + " " + layout.tensor.name + " " + ToString(local.shape());
    partial = IsPartialOver(layout.tensor, "tp");
  }
  void ObserveCounter(const Site&, int64_t) override {}

  std::string text;
  bool partial = false;
};

// One rank with a probe of the test's.
void OnOneRank(Probe& probe, const std::function<void(const RankEnv&)>& body) {
  const RunConfig config = TensorParallelConfig(1, false);
  const Mesh mesh(config.parallel);
  const SeededParameters parameters(config.model, 1);
  const Policies policies;
  World(WorldOptions{.size = 1}).Run([&](Rank& rank) {
    body(RankEnv(rank.context(), rank.comm(), mesh, config, policies, parameters, probe));
  });
}

TEST(Tap, ShowsValueAndGradientAtTheirSites) {
  LastShown probe;
  OnOneRank(probe, [&](const RankEnv& env) {
    const Tap tap(4, Named(MakeLayout(env, {"", {2, 3}, {}}), "decoder.layers.4.mlp_bda"));
    tap.ShowValue(env, {.step = 2, .microbatch = 1}, ZeroTensor({2, 3}));
    EXPECT_EQ(probe.text,
              "step 2 microbatch 1 forward decoder.layers.4.mlp_bda value "
              "decoder.layers.4.mlp_bda [2, 3]");
    tap.ShowGradient(env, {.step = 2, .microbatch = 1, .phase = Phase::kBackward},
                     ZeroTensor({2, 3}));
    EXPECT_EQ(probe.text,
              "step 2 microbatch 1 backward decoder.layers.4.mlp_bda gradient "
              "decoder.layers.4.mlp_bda [2, 3]");
  });
}

TEST(Tap, AGradientMayHaveALayoutOfItsOwn) {
  LastShown probe;
  OnOneRank(probe, [&](const RankEnv& env) {
    const Tap tap(0, MakeLayout(env, {"key", {2}, {}}),
                  MakeLayout(env, {"", {2}, {Partial("tp")}}));
    tap.ShowValue(env, ForwardPass(), ZeroTensor({2}));
    EXPECT_FALSE(probe.partial);
    tap.ShowGradient(env, BackwardPass(), ZeroTensor({2}));
    EXPECT_TRUE(probe.partial);
    EXPECT_NE(probe.text.find("gradient key"), std::string::npos);
  });
}

TEST(Tap, RefusesAPieceOfAnotherShape) {
  LastShown probe;
  EXPECT_THROW(OnOneRank(probe,
                         [&](const RankEnv& env) {
                           const Tap tap(0, MakeLayout(env, {"x", {2, 3}, {}}));
                           tap.ShowValue(env, ForwardPass(), ZeroTensor({3, 2}));
                         }),
               Internal);
}

}  // namespace
}  // namespace plumbline
