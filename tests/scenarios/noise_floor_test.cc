#include "scenarios/noise_floor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace plumbline {
namespace {

Site At(Phase phase, Quantity quantity, const std::string& tensor = "decoder.final_layernorm",
        int step = 1, int microbatch = 0) {
  Site site;
  site.step = step;
  site.microbatch = microbatch;
  site.phase = phase;
  site.quantity = quantity;
  site.tensor = tensor;
  return site;
}

Site Forward(int step, int microbatch) {
  return At(Phase::kForward, Quantity::kValue, "decoder.final_layernorm", step, microbatch);
}

TEST(NoiseFloorTest, IsTheWorstOfAllMicrobatchesAndRunsOfItsStep) {
  NoiseFloor floor(DType::kBF16, {});
  EXPECT_EQ(floor.Of(Forward(1, 0)), 0);
  floor.Add(Forward(1, 0), 0.01);
  floor.Add(Forward(1, 3), 0.03);
  floor.Add(Forward(1, 1), 0.02);
  floor.Add(Forward(2, 0), 0.5);
  EXPECT_EQ(floor.Of(Forward(1, 7)), 0.03);
  EXPECT_EQ(floor.Of(Forward(2, 1)), 0.5);
  EXPECT_EQ(floor.Of(At(Phase::kBackward, Quantity::kGradient)), 0);
  // Where the layout computes it does not matter.
  Site elsewhere = Forward(1, 0);
  elsewhere.chunk = 1;
  elsewhere.layer = 4;
  EXPECT_EQ(floor.Of(elsewhere), 0.03);
}

TEST(NoiseFloorTest, BoundIsTheMultipleOfTheFloorOrOfTheMinimum) {
  for (DType dtype : {DType::kBF16, DType::kF16}) {
    NoiseFloorOptions options;
    options.multiple = 3;
    options.minimum = 2;
    NoiseFloor floor(dtype, options);
    const double unit = dtype == DType::kBF16 ? 0x1p-8 : 0x1p-11;
    EXPECT_EQ(floor.unit(), unit);
    EXPECT_EQ(floor.BoundOf(Forward(1, 0)), 6 * unit);
    floor.Add(Forward(1, 0), unit);
    EXPECT_EQ(floor.BoundOf(Forward(1, 0)), 6 * unit);
    floor.Add(Forward(1, 0), 5 * unit);
    EXPECT_EQ(floor.BoundOf(Forward(1, 0)), 15 * unit);
  }
}

// A one-rank run that is broken must not widen the bound to anything.
TEST(NoiseFloorTest, WhatIsNotFiniteAdmitsNothing) {
  for (double broken :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    NoiseFloor floor(DType::kBF16, {});
    floor.Add(Forward(1, 0), 0.01);
    floor.Add(Forward(1, 0), broken);
    floor.Add(Forward(1, 1), 0.02);
    EXPECT_TRUE(std::isnan(floor.Of(Forward(1, 0))));
    EXPECT_TRUE(std::isnan(floor.BoundOf(Forward(1, 0))));
  }
}

TEST(NoiseFloorTest, WhatTheOptimizerHoldsIsBoundByItsOwnRoundingAlone) {
  NoiseFloor floor(DType::kF16, {});
  for (Quantity quantity : {Quantity::kMainParam, Quantity::kExpAvg, Quantity::kExpAvgSq}) {
    const Site site = At(Phase::kStep, quantity);
    floor.Add(site, 0.1);
    EXPECT_EQ(floor.Of(site), 0.1);
    EXPECT_LT(floor.BoundOf(site), 1e-5);
  }
  const double parameter = floor.BoundOf(At(Phase::kStep, Quantity::kParameter));
  EXPECT_GT(parameter, 0x1p-11);
  EXPECT_LT(parameter, 0x1.1p-11);
  EXPECT_EQ(floor.BoundOf(At(Phase::kInit, Quantity::kParameter)), 0) << "they start equal";
}

TEST(StoredDTypeTest, ActivationsAreNarrowAndSumsAreWide) {
  RunConfig config;
  config.dtype = DType::kBF16;
  const auto stored = [&](Phase phase, Quantity quantity, const std::string& tensor) {
    return StoredDType(config, At(phase, quantity, tensor));
  };
  EXPECT_EQ(stored(Phase::kForward, Quantity::kValue, "output_layer"), DType::kBF16);
  EXPECT_EQ(stored(Phase::kBackward, Quantity::kGradient, "output_layer"), DType::kBF16);
  EXPECT_EQ(stored(Phase::kForward, Quantity::kValue, "loss_per_token"), DType::kF32);
  EXPECT_EQ(stored(Phase::kForward, Quantity::kValue, "loss"), DType::kF32);
  EXPECT_EQ(stored(Phase::kFinalize, Quantity::kValue, "lm_loss"), DType::kF32);
  EXPECT_EQ(stored(Phase::kNorm, Quantity::kValue, "grad_norm"), DType::kF32);
  EXPECT_EQ(stored(Phase::kStep, Quantity::kParameter, "w"), DType::kBF16);
  EXPECT_EQ(stored(Phase::kStep, Quantity::kMainParam, "w"), DType::kF32);
  EXPECT_EQ(stored(Phase::kStep, Quantity::kExpAvg, "w"), DType::kF32);
  EXPECT_EQ(stored(Phase::kFinalize, Quantity::kMainGrad, "w"), DType::kF32);
  config.parallel.data.grads_in_param_dtype = true;
  EXPECT_EQ(stored(Phase::kFinalize, Quantity::kMainGrad, "w"), DType::kBF16);
  config.dtype = DType::kF64;
  EXPECT_EQ(stored(Phase::kForward, Quantity::kValue, "loss"), DType::kF64);
}

}  // namespace
}  // namespace plumbline
