#include "scenarios/measure_noise.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/init.h"
#include "tests/scenarios/scenario_testing.h"

namespace plumbline {
namespace {

Site At(int step, Phase phase, Quantity quantity, const std::string& tensor) {
  Site site;
  site.step = step;
  site.phase = phase;
  site.quantity = quantity;
  site.tensor = tensor;
  return site;
}

const Site kNorm1 = At(1, Phase::kForward, Quantity::kValue, "decoder.final_layernorm");
const Site kNorm2 = At(2, Phase::kForward, Quantity::kValue, "decoder.final_layernorm");
const Site kGradient1 =
    At(1, Phase::kFinalize, Quantity::kMainGrad, "decoder.final_layernorm.weight");

NoiseFloor Measure(size_t model, DType dtype, std::vector<SumOrder> orders) {
  Scenario scenario = MakeScenario(NamedModels()[model], {2, 2, true});
  scenario.config.dtype = dtype;
  const SeededParameters parameters(scenario.config.model, 5);
  const RoundedParameters rounded(parameters, dtype);
  const TextBatches batches(scenario.config.model, scenario.config.train, {1, 7, 3, 50, 12, 9});
  NoiseFloorOptions options;
  options.orders = std::move(orders);
  double progress = 0;
  const NoiseFloor floor =
      MeasureNoiseFloor(scenario.config, {rounded, batches}, options, [&](double share) {
        EXPECT_GT(share, progress);
        progress = share;
      });
  EXPECT_EQ(progress, 1);
  return floor;
}

TEST(MeasureNoiseTest, FloorsAreSomeRoundingsAndTheSameEveryTime) {
  for (DType dtype : {DType::kBF16, DType::kF16}) {
    const NoiseFloor floor = Measure(0, dtype, NoiseOrders(2));
    const NoiseFloor again = Measure(0, dtype, NoiseOrders(2));
    for (const Site& site : {kNorm1, kNorm2, kGradient1}) {
      EXPECT_GT(floor.Of(site), 0.3 * floor.unit()) << ToString(site);
      EXPECT_EQ(again.Of(site), floor.Of(site)) << ToString(site);
    }
    EXPECT_LT(floor.Of(kNorm1), 10 * floor.unit());
  }
}

TEST(MeasureNoiseTest, MoreRunsOnlyRaiseIt) {
  const NoiseFloor plain = Measure(3, DType::kBF16, {{1, false, false}});
  const NoiseFloor split = Measure(3, DType::kBF16, {{1, false, false}, {8, false, true}});
  EXPECT_GE(split.Of(kGradient1), plain.Of(kGradient1));
  EXPECT_GT(split.Of(kNorm1), plain.Of(kNorm1)) << "blocks are rounded";
}

// Gradients are moved in all runs but the first, which later steps see alone. SGD's are not.
TEST(MeasureNoiseTest, MovedGradientsRaiseTheFloorsOfLaterSteps) {
  const std::vector<SumOrder> once = {{1, false, false}};
  const std::vector<SumOrder> twice = {{1, false, false}, {1, false, false}};
  for (DType dtype : {DType::kBF16, DType::kF16}) {
    const NoiseFloor plain = Measure(0, dtype, once);
    const NoiseFloor moved = Measure(0, dtype, twice);
    EXPECT_EQ(moved.Of(kNorm1), plain.Of(kNorm1));
    EXPECT_EQ(moved.Of(kGradient1), plain.Of(kGradient1));
    EXPECT_GT(moved.Of(kNorm2), plain.Of(kNorm2));
    // What the optimizer makes of them is no floor.
    const Site weight = At(1, Phase::kStep, Quantity::kMainParam, kGradient1.tensor);
    EXPECT_EQ(moved.Of(weight), plain.Of(weight));
    EXPECT_EQ(Measure(1, dtype, twice).Of(kNorm2), Measure(1, dtype, once).Of(kNorm2));
  }
}

TEST(MeasureNoiseTest, OneRankHasNothingOfTheLayoutButTheDtypeOfGradients) {
  Scenario scenario = MakeScenario(NamedModels()[2], {4, 2, true});  // pads its vocabulary by tp
  RunConfig& config = scenario.config;
  config.dtype = DType::kBF16;
  config.parallel.pp = 2;
  config.parallel.data.gradient_buffers = true;
  config.parallel.data.sharding_strategy = ShardingStrategy::kOptim;
  config.parallel.data.grads_in_param_dtype = true;
  const RunConfig one = OnOneRank(config);
  EXPECT_EQ(one.parallel.world_size(), 1);
  EXPECT_FALSE(one.parallel.sequence_parallel);
  EXPECT_FALSE(one.parallel.data.use_distributed_optimizer());
  EXPECT_EQ(one.grad_dtype(), DType::kBF16);
  EXPECT_EQ(one.train.global_batch_size, config.train.global_batch_size);
  Validate(one);
}

}  // namespace
}  // namespace plumbline
