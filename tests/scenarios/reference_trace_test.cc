#include "scenarios/reference_trace.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/error.h"

namespace plumbline {
namespace {

Site At(int step, const std::string& tensor, Phase phase = Phase::kForward,
        Quantity quantity = Quantity::kValue) {
  Site site;
  site.step = step;
  site.phase = phase;
  site.quantity = quantity;
  site.tensor = tensor;
  return site;
}

Tensor F64(const std::vector<double>& values) {
  return Tensor::FromVector(Context{}, {static_cast<int64_t>(values.size())}, values);
}

TEST(ReferenceTraceTest, EntriesHaveTheirPlaceAndScale) {
  ReferenceTrace trace(TrainConfig{});
  trace.Record(At(1, "a"), F64({1, -3}));
  trace.RecordCounter(At(1, "n", Phase::kStep, Quantity::kCounter), 42);
  trace.Finish();
  const ReferenceEntry* a = trace.Find(At(1, "a"));
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->ordinal, 0);
  EXPECT_EQ(a->max_abs, 3);
  EXPECT_EQ(a->shape, Shape{2});
  EXPECT_EQ(trace.Find(At(1, "n", Phase::kStep, Quantity::kCounter))->counter, 42);
  EXPECT_EQ(trace.Find(At(2, "a")), nullptr);
}

TEST(ReferenceTraceTest, StridedTensorsArePacked) {
  ReferenceTrace trace(TrainConfig{});
  trace.Record(
      At(1, "t"),
      Tensor::FromVector(Context{}, {2, 2}, std::vector<double>{1, 2, 3, 4}).Transpose(0, 1));
  const double* values = trace.Find(At(1, "t"))->tensor.data<double>();
  EXPECT_EQ(values[1], 3);
}

TEST(ReferenceTraceTest, LayerAndChunkDoNotTellSitesApart) {
  ReferenceTrace trace(TrainConfig{});
  Site site = At(1, "decoder.layers.3.mlp");
  trace.Record(site, F64({1}));
  site.layer = 3;
  site.chunk = 1;
  EXPECT_NE(trace.Find(site), nullptr);
}

TEST(ReferenceTraceTest, SiteRecordedTwiceIsAnError) {
  ReferenceTrace trace(TrainConfig{});
  trace.Record(At(1, "a"), F64({1}));
  EXPECT_THROW(trace.Record(At(1, "a"), F64({1})), Internal);
}

TEST(ReferenceTraceTest, ReaderWaitsForTheWriter) {
  ReferenceTrace trace(TrainConfig{});
  std::thread writer([&] {
    for (int step = 1; step <= 200; ++step) trace.Record(At(step, "a"), F64({1.0 * step}));
    trace.Finish();
  });
  for (int step = 1; step <= 200; ++step) {
    const ReferenceEntry* entry = trace.Find(At(step, "a"));
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(entry->max_abs, step);
    trace.Drop(*entry);
  }
  EXPECT_EQ(trace.Find(At(201, "a")), nullptr);
  writer.join();
}

TEST(ReferenceTraceTest, WriterPausesWhenFarAheadAndGoesOn) {
  ReferenceTrace::Options options;
  options.max_bytes_ahead = 20 * static_cast<int64_t>(sizeof(double));
  ReferenceTrace trace(TrainConfig{}, options);
  std::thread writer([&] {
    for (int step = 1; step <= 100; ++step) trace.Record(At(step, "a"), F64({1, 2, 3, 4}));
    trace.Finish();
  });
  // Nothing is dropped: the reader still gets everything that it asks for.
  for (int step = 100; step >= 1; --step) EXPECT_NE(trace.Find(At(step, "a")), nullptr);
  writer.join();
}

TEST(ReferenceTraceTest, CancelStopsThePausedWriter) {
  ReferenceTrace::Options options;
  options.max_bytes_ahead = 1;
  ReferenceTrace trace(TrainConfig{}, options);
  bool aborted = false;
  std::thread writer([&] {
    try {
      for (int step = 1; step <= 100; ++step) trace.Record(At(step, "a"), F64({1, 2}));
    } catch (const Aborted&) {
      aborted = true;
    }
    trace.Finish();
  });
  trace.Cancel();
  writer.join();
  EXPECT_TRUE(aborted);
}

TEST(ReferenceTraceTest, ErrorOfTheReferenceReachesTheReader) {
  ReferenceTrace trace(TrainConfig{});
  trace.Record(At(1, "a"), F64({1}));
  trace.Fail(std::make_exception_ptr(InvalidArgument("bad batch")));
  EXPECT_NE(trace.Find(At(1, "a")), nullptr);
  EXPECT_THROW(trace.Find(At(1, "b")), InvalidArgument);
}

TEST(ReferenceTraceTest, OnlyWhatIsAskedForIsKept) {
  ReferenceTrace::Options options;
  options.keep = [](const Site& site) { return site.tensor == "b"; };
  ReferenceTrace trace(TrainConfig{}, options);
  trace.Record(At(1, "a"), F64({1}));
  trace.Record(At(1, "b"), F64({1}));
  EXPECT_FALSE(trace.Find(At(1, "a"))->tensor.defined());
  EXPECT_TRUE(trace.Find(At(1, "b"))->tensor.defined());
}

TEST(ReferenceTraceTest, UnknownSitesTakeThePlaceOfTheirNearestKin) {
  ReferenceTrace trace(TrainConfig{});
  trace.Record(At(1, "a"), F64({1}));
  trace.Record(At(1, "b"), F64({1}));
  trace.Record(At(1, "b", Phase::kBackward, Quantity::kGradient), F64({1}));
  trace.Record(At(1, "a", Phase::kBackward, Quantity::kGradient), F64({1}));
  trace.Finish();
  EXPECT_EQ(trace.PlaceOf(At(1, "b")), 1);
  EXPECT_EQ(trace.PlaceOf(At(1, "a", Phase::kBackward, Quantity::kMainGrad)), 3);
  EXPECT_EQ(trace.PlaceOf(At(1, "c", Phase::kBackward)), 2);
  EXPECT_EQ(trace.PlaceOf(At(9, "a")), 4);
}

TEST(ReferenceTraceTest, ParametersCarryTheExemptionOfTheirStep) {
  TrainConfig train;
  train.optimizer = OptimizerKind::kAdam;
  const auto extra_of = [&](double clip, int step, Quantity quantity) {
    ReferenceTrace trace(train);
    for (int t = 1; t <= 2; ++t) {
      trace.Record(At(t, "w", Phase::kFinalize, Quantity::kMainGrad), F64({1, 0}));
      trace.Record(At(t, "clip_coefficient", Phase::kNorm, Quantity::kValue), F64({clip}));
      trace.Record(At(t, "w", Phase::kStep, Quantity::kParameter), F64({1, 1}));
      trace.Record(At(t, "w", Phase::kStep, Quantity::kExpAvg), F64({1, 1}));
    }
    return trace.Find(At(step, "w", Phase::kStep, quantity))->exemption.ExtraAt(1, DType::kF64);
  };
  const double extra = extra_of(1, 1, Quantity::kParameter);
  EXPECT_GT(extra, 0);
  EXPECT_FLOAT_EQ(extra_of(1, 2, Quantity::kParameter), 2 * extra);
  EXPECT_FLOAT_EQ(extra_of(0.5, 1, Quantity::kParameter), 0.5 * extra);
  EXPECT_EQ(extra_of(1, 1, Quantity::kExpAvg), 0);
}

// With a noise floor weights and moments carry what gradients within their bounds make of them.
TEST(ReferenceTraceTest, LowPrecisionStatesCarryAllowances) {
  NoiseFloor floor(DType::kBF16, {});
  const Site gradient = At(1, "w", Phase::kFinalize, Quantity::kMainGrad);
  floor.Add(gradient, 0.01);
  TrainConfig train;
  train.lr = 0.5;
  ReferenceTrace::Options options;
  options.main_params = true;
  options.noise_floor = &floor;
  ReferenceTrace trace(train, options);
  const Site initial = At(0, "w", Phase::kInit, Quantity::kParameter);
  const Site parameter = At(1, "w", Phase::kStep, Quantity::kParameter);
  const Site master = At(1, "w", Phase::kStep, Quantity::kMainParam);
  const Site mean = At(1, "w", Phase::kStep, Quantity::kExpAvg);
  trace.Record(initial, F64({1, 1}));
  trace.Record(gradient, F64({2, 1e-4}));
  trace.Record(At(1, "clip_coefficient", Phase::kNorm), F64({0.25}));
  trace.Record(parameter, F64({1, 1}));
  trace.Record(mean, F64({0.1, 0.1}));
  trace.Finish();
  EXPECT_EQ(trace.Find(initial)->allowance, nullptr);
  EXPECT_EQ(trace.Find(gradient)->allowance, nullptr);
  // 4 * 0.01 of the largest, a tenth of it, clipped; the coefficient may be off by 4 * 2^-8 too.
  const double error = 0.25 * (4 * 0.01 * 2) * (1 + 0x1p-6);
  ASSERT_NE(trace.Find(mean)->allowance, nullptr);
  EXPECT_NEAR((*trace.Find(mean)->allowance)[1], 0.1 * error, 1e-6);
  ASSERT_NE(trace.Find(parameter)->allowance, nullptr);
  EXPECT_LT((*trace.Find(parameter)->allowance)[0], 0.1);        // lr 2 e / g
  EXPECT_NEAR((*trace.Find(parameter)->allowance)[1], 1, 1e-3);  // 2 lr: either way
  EXPECT_EQ(*trace.Find(master)->allowance, *trace.Find(parameter)->allowance);
  trace.Drop(*trace.Find(parameter));
  EXPECT_EQ(trace.Find(parameter)->allowance, nullptr);
}

}  // namespace
}  // namespace plumbline
