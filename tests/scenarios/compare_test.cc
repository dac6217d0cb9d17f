#include "scenarios/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <limits>
#include <optional>

namespace plumbline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Masks of 1, 2, 3 ... labels by microbatch.
class CountingBatches : public BatchSource {
 public:
  Batch Get(const Context& context, int64_t /*step*/, int64_t microbatch) const override {
    Batch batch;
    std::vector<double> mask(8, 0.0);
    for (int64_t i = 0; i <= microbatch; ++i) mask[static_cast<size_t>(i)] = 1;
    batch.loss_mask = Tensor::FromVector(context, {2, 4}, mask);
    return batch;
  }
};

Site At(const std::string& tensor, Phase phase = Phase::kForward,
        Quantity quantity = Quantity::kValue, int microbatch = -1) {
  Site site;
  site.step = 1;
  site.microbatch = microbatch;
  site.phase = phase;
  site.quantity = quantity;
  site.tensor = tensor;
  return site;
}

// Two by two ranks (tp fastest: 0 1 | 2 3) that show tensors made by hand.
class CompareTest : public ::testing::Test {
 protected:
  CompareTest() { config_.parallel = Layout(); }

  static ParallelConfig Layout() {
    ParallelConfig parallel;
    parallel.tp = 2;
    parallel.dp = 2;
    return parallel;
  }

  void Start() {
    trace_.emplace(config_.train);
    comparer_.emplace(config_, mesh_, batches_, *trace_);
  }
  void Reference(const Site& site, const Shape& shape, const std::vector<double>& values) {
    trace_->Record(site, Tensor::FromVector(Context{}, shape, values));
  }
  Comparison Finish(bool completed = true) {
    trace_->Finish();
    return comparer_->Finish(completed);
  }

  const ObservedLayout& LayoutOf(int rank, const Shape& shape,
                                 std::vector<AxisPlacement> placements) {
    ObservedLayout layout;
    layout.tensor = {"t", shape, std::move(placements)};
    layout.piece = PieceOf(layout.tensor, mesh_, rank);
    layouts_.push_back(std::move(layout));
    return layouts_.back();
  }
  // Shows what the layout says of `whole`, with one local element changed when asked.
  void Show(int rank, const Site& site, const ObservedLayout& layout,
            const std::vector<double>& whole, int changed = -1, double to = 0) {
    std::vector<double> local;
    for (const int64_t index : layout.piece.global_index) {
      local.push_back(index < 0 ? kNan : whole[static_cast<size_t>(index)]);
    }
    if (changed >= 0) local[static_cast<size_t>(changed)] = to;
    comparer_->ProbeOf(rank).Observe(
        site, layout, Tensor::FromVector(Context{}, layout.piece.local_shape, local));
  }
  // All four ranks hold all of it; `wrong` shows `to` as its element 1.
  Comparison Replicated(int wrong, double to) {
    const std::vector<double> whole = {1, 2, 3, 4};
    Start();
    Reference(At("a"), {4}, whole);
    for (int rank = 0; rank < 4; ++rank) {
      Show(rank, At("a"), LayoutOf(rank, {4}, {}), whole, rank == wrong ? 1 : -1, to);
    }
    return Finish();
  }
  static std::vector<AxisPlacement> ByRows() { return {Sharded("tp", {ShardStep::Block(0)})}; }

  RunConfig config_;
  Mesh mesh_{Layout()};
  CountingBatches batches_;
  std::optional<ReferenceTrace> trace_;
  std::optional<Comparer> comparer_;
  std::deque<ObservedLayout> layouts_;
};

TEST_F(CompareTest, EqualTensorsPassAndAreCounted) {
  const Comparison comparison = Replicated(-1, 0);
  EXPECT_THAT(comparison.divergences, IsEmpty());
  ASSERT_EQ(comparison.compared.size(), 2U);
  EXPECT_EQ(comparison.compared[0].quantity, "forward value");
  EXPECT_EQ(comparison.compared[0].tensors, 1);
  EXPECT_EQ(comparison.compared[0].values, 16);
  EXPECT_EQ(comparison.compared[1].quantity, "replicas");
  EXPECT_EQ(comparison.compared[1].worst, 0);
}

TEST_F(CompareTest, WrongValueIsFoundWithRankIndexAndBothValues) {
  const Comparison comparison = Replicated(2, 2.5);
  ASSERT_EQ(comparison.divergences.size(), 1U);
  const Divergence& found = comparison.divergences[0];
  EXPECT_EQ(found.kind, FindingClass::kValueMismatch);
  EXPECT_THAT(found.ranks, ElementsAre(2));
  EXPECT_EQ(found.rank, 2);
  EXPECT_EQ(found.index, 1);
  EXPECT_EQ(found.actual, 2.5);
  EXPECT_EQ(found.reference, 2);
  EXPECT_EQ(found.deviation, 0.125);
}

TEST_F(CompareTest, DeviationJustBelowTheBoundPassesJustAboveFails) {
  const double bound = 1e-11 * 4;
  EXPECT_EQ(Replicated(1, 2 + 1.01 * bound).divergences[0].kind, FindingClass::kValueMismatch);
  EXPECT_EQ(Replicated(1, 2 + 0.99 * bound).divergences[0].kind, FindingClass::kReplicaMismatch);
}

TEST_F(CompareTest, OneUlpBetweenReplicasIsFound) {
  const Comparison comparison = Replicated(3, std::nextafter(2, 3));
  ASSERT_EQ(comparison.divergences.size(), 1U);
  EXPECT_EQ(comparison.divergences[0].kind, FindingClass::kReplicaMismatch);
  EXPECT_THAT(comparison.divergences[0].ranks, ElementsAre(3));
  EXPECT_EQ(comparison.compared[1].worst, 1);
}

TEST_F(CompareTest, NanIsNonFinite) {
  const Comparison comparison = Replicated(0, kNan);
  ASSERT_EQ(comparison.divergences.size(), 1U);
  EXPECT_EQ(comparison.divergences[0].kind, FindingClass::kNonFinite);
  EXPECT_EQ(comparison.divergences[0].index, 1);
  EXPECT_THAT(comparison.divergences[0].ranks, ElementsAre(0));
  EXPECT_TRUE(std::isinf(comparison.divergences[0].deviation));
}

TEST_F(CompareTest, NanWinsOverALargeDifference) {
  const std::vector<double> whole = {1, 2, 3, 4};
  Start();
  Reference(At("a"), {4}, whole);
  for (int rank = 0; rank < 4; ++rank) {
    Show(rank, At("a"), LayoutOf(rank, {4}, {}), whole, rank < 2 ? 3 : -1,
         rank == 0 ? 1e300 : kNan);
  }
  const Comparison comparison = Finish();
  EXPECT_EQ(comparison.divergences[0].kind, FindingClass::kNonFinite);
  EXPECT_EQ(comparison.divergences[0].rank, 1);
  EXPECT_THAT(comparison.divergences[0].ranks, ElementsAre(0, 1));
}

TEST_F(CompareTest, ShardsArePlacedByTheirMapAndPaddingIsSkipped) {
  const std::vector<double> whole = {1, 2, 3, 4, 5};
  Start();
  Reference(At("a"), {5}, whole);
  for (int rank = 0; rank < 4; ++rank) {
    const auto& layout = LayoutOf(rank, {5}, {Sharded("tp", {ShardStep::PaddedBlock(0)})});
    Show(rank, At("a"), layout, whole, rank == 3 ? 1 : -1, 5.5);
  }
  const Comparison comparison = Finish();
  ASSERT_EQ(comparison.divergences.size(), 1U);
  EXPECT_EQ(comparison.divergences[0].index, 4);
  EXPECT_THAT(comparison.divergences[0].ranks, ElementsAre(3));
  EXPECT_EQ(comparison.compared[0].values, 10) << "padding is not compared";
}

TEST_F(CompareTest, ElementThatNoRankHoldsIsMissing) {
  const std::vector<double> whole = {1, 2, 3, 4};
  Start();
  Reference(At("a"), {4}, whole);
  for (int rank = 0; rank < 4; ++rank) {
    Show(rank, At("a"), LayoutOf(rank - rank % 2, {4}, ByRows()), whole);
  }
  const Comparison comparison = Finish();
  ASSERT_EQ(comparison.divergences.size(), 1U);
  EXPECT_EQ(comparison.divergences[0].kind, FindingClass::kMissingTensor);
  EXPECT_EQ(comparison.divergences[0].index, 2);
}

TEST_F(CompareTest, ElementsThatDifferentPiecesShareAreComparedBitForBit) {
  const std::vector<double> whole = {1, 2, 3};
  const std::vector<std::vector<int64_t>> rows = {{0, 1}, {1, 2}};
  for (int step = 0; step < 2; ++step) {  // the first tensor, and one of which sharing is known
    Start();
    for (int s = 0; s <= step; ++s) {
      Site site = At("a");
      site.step = s + 1;
      Reference(site, {3}, whole);
      for (int rank = 0; rank < 4; ++rank) {
        const auto& layout = LayoutOf(rank, {3}, {Sharded("tp", {ShardStep::Rows(0, rows)})});
        Show(rank, site, layout, whole, rank % 2 == 1 && s == step ? 0 : -1, std::nextafter(2, 3));
      }
    }
    const Comparison comparison = Finish();
    ASSERT_EQ(comparison.divergences.size(), 1U) << step;
    EXPECT_EQ(comparison.divergences[0].kind, FindingClass::kReplicaMismatch);
    EXPECT_EQ(comparison.divergences[0].index, 1);
    EXPECT_EQ(comparison.divergences[0].site.step, step + 1);
  }
}

TEST_F(CompareTest, PartialsAreSummedOverTheirGroup) {
  const std::vector<double> whole = {1, 2};
  for (const double last : {6.0, 6.5}) {
    Start();
    Reference(At("a"), {2}, whole);
    for (int rank = 0; rank < 4; ++rank) {
      const auto& layout = LayoutOf(rank, {2}, {Partial("tp")});
      Show(rank, At("a"), layout,
           rank % 2 == 0 ? std::vector<double>{-3, -4} : std::vector<double>{4, 6},
           rank == 3 ? 1 : -1, last);
    }
    const Comparison comparison = Finish();
    if (last == 6.0) {
      EXPECT_THAT(comparison.divergences, IsEmpty());
    } else {
      ASSERT_EQ(comparison.divergences.size(), 1U);
      EXPECT_THAT(comparison.divergences[0].ranks, ElementsAre(2, 3));
      EXPECT_EQ(comparison.divergences[0].actual, 2.5);
    }
  }
}

TEST_F(CompareTest, ContributionsAddWhereTheyStandForTheSameElement) {
  const std::vector<std::vector<int64_t>> rows = {{0, 1}, {1, 2}};
  for (const double reference : {20.0, 10.0}) {
    Start();
    Reference(At("a"), {3}, {1, reference, 3});
    for (int rank = 0; rank < 4; ++rank) {
      Show(rank, At("a"),
           LayoutOf(rank, {3}, {Sharded("tp", {ShardStep::Rows(0, rows)}), Partial("tp")}),
           {1, 10, 3});
    }
    EXPECT_EQ(Finish().divergences.size(), reference == 20 ? 0U : 1U);
  }
}

TEST_F(CompareTest, SumsThatLeaveOutAnElementAreMissingIt) {
  Start();
  Reference(At("a"), {4}, {2, 2, 2, 2});
  for (int rank = 0; rank < 4; ++rank) {
    auto placements = ByRows();
    placements.push_back(Partial("tp"));
    Show(rank, At("a"), LayoutOf(rank - rank % 2, {4}, placements), {1, 1, 1, 1});
  }
  const Comparison comparison = Finish();
  ASSERT_EQ(comparison.divergences.size(), 1U);
  EXPECT_EQ(comparison.divergences[0].kind, FindingClass::kMissingTensor);
  EXPECT_EQ(comparison.divergences[0].index, 2);
}

TEST_F(CompareTest, RankThatNeverShowsATensorIsNamed) {
  const std::vector<double> whole = {1, 2};
  Start();
  Reference(At("a"), {2}, whole);
  Reference(At("b"), {2}, whole);
  for (int rank = 0; rank < 3; ++rank) Show(rank, At("a"), LayoutOf(rank, {2}, {}), whole);
  const Comparison comparison = Finish();
  ASSERT_EQ(comparison.divergences.size(), 2U);
  EXPECT_EQ(comparison.divergences[0].kind, FindingClass::kMissingTensor);
  EXPECT_EQ(comparison.divergences[0].site.tensor, "a");
  EXPECT_THAT(comparison.divergences[0].ranks, ElementsAre(3));
  EXPECT_EQ(comparison.divergences[1].site.tensor, "b");
  EXPECT_THAT(comparison.divergences[1].ranks, ElementsAre(0, 1, 2, 3));
}

TEST_F(CompareTest, StoppedRunIsComparedAsFarAsItWent) {
  const std::vector<double> whole = {1, 2};
  Start();
  Reference(At("a"), {2}, whole);
  Reference(At("b"), {2}, whole);
  Show(0, At("a"), LayoutOf(0, {2}, ByRows()), whole);
  Show(1, At("a"), LayoutOf(1, {2}, ByRows()), whole, 0, 3);
  const Comparison comparison = Finish(/*completed=*/false);
  ASSERT_EQ(comparison.divergences.size(), 1U);
  EXPECT_EQ(comparison.divergences[0].kind, FindingClass::kValueMismatch);
  EXPECT_THAT(comparison.divergences[0].ranks, ElementsAre(1));
}

TEST_F(CompareTest, TensorThatTheReferenceLacksIsFound) {
  Start();
  Reference(At("a"), {1}, {1});
  for (int rank = 0; rank < 4; ++rank) Show(rank, At("a"), LayoutOf(rank, {1}, {}), {1});
  trace_->Finish();
  Show(2, At("b"), LayoutOf(2, {1}, {}), {1});
  const Comparison comparison = comparer_->Finish(true);
  ASSERT_EQ(comparison.divergences.size(), 1U);
  EXPECT_EQ(comparison.divergences[0].kind, FindingClass::kMissingTensor);
  EXPECT_THAT(comparison.divergences[0].note, HasSubstr("the reference has no such tensor"));
}

TEST_F(CompareTest, MicrobatchBelongsToOneDataParallelRank) {
  const Site site = At("a", Phase::kForward, Quantity::kValue, 3);  // 3 % 2: ranks 2 and 3
  Start();
  Reference(site, {1}, {1});
  for (const int rank : {2, 3}) Show(rank, site, LayoutOf(rank, {1}, {}), {1});
  EXPECT_THAT(Finish().divergences, IsEmpty());
  Start();
  Reference(site, {1}, {1});
  for (const int rank : {0, 2, 3}) Show(rank, site, LayoutOf(rank, {1}, {}), {1});
  const Comparison comparison = Finish();
  ASSERT_EQ(comparison.divergences.size(), 1U);
  EXPECT_THAT(comparison.divergences[0].ranks, ElementsAre(0));
}

TEST_F(CompareTest, ShowingATensorTwiceIsFound) {
  Start();
  Reference(At("a"), {1}, {1});
  for (const int rank : {0, 1, 1, 2, 3, 3}) Show(rank, At("a"), LayoutOf(rank, {1}, {}), {1});
  const Comparison comparison = Finish();
  ASSERT_EQ(comparison.divergences.size(), 2U);
  EXPECT_THAT(comparison.divergences[0].ranks, ElementsAre(1));
  EXPECT_THAT(comparison.divergences[1].ranks, ElementsAre(3));
}

TEST_F(CompareTest, PieceOfAnotherShapeOrDtypeIsFoundAndNotCompared) {
  Start();
  Reference(At("a"), {2}, {1, 2});
  Show(0, At("a"), LayoutOf(0, {3}, {}), {1, 2, 3});
  comparer_->ProbeOf(1).Observe(At("a"), LayoutOf(1, {2}, {}),
                                Tensor::FromVector(Context{}, {1}, std::vector<double>{1}));
  comparer_->ProbeOf(2).Observe(At("a"), LayoutOf(2, {2}, {}),
                                Tensor::FromVector(Context{}, {2}, std::vector<float>{1, 2}));
  Show(3, At("a"), LayoutOf(3, {2}, {}), {1, 2});
  const Comparison comparison = Finish();
  ASSERT_EQ(comparison.divergences.size(), 3U);
  EXPECT_THAT(comparison.divergences[0].note, HasSubstr("shape [3] where the reference has [2]"));
  EXPECT_THAT(comparison.divergences[1].note, HasSubstr("shape [1]"));
  EXPECT_THAT(comparison.divergences[2].note, HasSubstr("dtype f32 in a run in f64"));
}

TEST_F(CompareTest, ActivationGradientsAreDividedByDataParallelSize) {
  const Site site = At("a", Phase::kBackward, Quantity::kGradient, 0);
  Start();
  Reference(site, {2}, {1, 2});
  for (const int rank : {0, 1}) Show(rank, site, LayoutOf(rank, {2}, {}), {2, 4});
  EXPECT_THAT(Finish().divergences, IsEmpty());
}

TEST_F(CompareTest, ActivationGradientsAreDividedByTheStepsLabels) {
  config_.train.calculate_per_token_loss = true;
  config_.train.micro_batch_size = 2;
  config_.train.global_batch_size = 6;  // masks of 1 + 2 + 3 labels
  EXPECT_EQ(ActivationGradientFactor(config_, batches_, 1), 1.0 / 6);
  const Site site = At("a", Phase::kBackward, Quantity::kGradient, 0);
  Start();
  Reference(site, {2}, {1, 2});
  for (const int rank : {0, 1}) Show(rank, site, LayoutOf(rank, {2}, {}), {6, 12});
  EXPECT_THAT(Finish().divergences, IsEmpty());
}

TEST_F(CompareTest, AdamExemptionCoversParametersAndNothingElse) {
  config_.train.optimizer = OptimizerKind::kAdam;
  config_.train.lr = 1e-3;
  config_.train.adam_eps = 1e-8;
  // Extra of the second element: 1e-3 * 1e-15 * 1 / 1e-8 = 1e-10, ten times the bound.
  const auto run = [&](Quantity quantity, int element, double off) {
    Start();
    const std::vector<double> values = {1, 0};
    const Site grad = At("w", Phase::kFinalize, Quantity::kMainGrad);
    const Site after = At("w", Phase::kStep, quantity);
    Reference(grad, {2}, values);
    Reference(after, {2}, values);
    for (int rank = 0; rank < 4; ++rank) {
      const ObservedLayout& layout = LayoutOf(rank, {2}, {});
      Show(rank, grad, layout, values);
      Show(rank, after, layout, values, element, values[static_cast<size_t>(element)] + off);
    }
    return Finish().divergences.size();
  };
  EXPECT_EQ(run(Quantity::kParameter, 1, 0.9e-10), 0U);
  EXPECT_EQ(run(Quantity::kParameter, 1, 1.2e-10), 1U);
  EXPECT_EQ(run(Quantity::kParameter, 0, 0.9e-10), 1U);
  EXPECT_EQ(run(Quantity::kExpAvg, 1, 0.9e-10), 1U);
  config_.train.optimizer = OptimizerKind::kSgd;
  EXPECT_EQ(run(Quantity::kParameter, 1, 0.9e-10), 1U);
}

TEST_F(CompareTest, CountersAreExact) {
  const Site site = At("optimizer_step", Phase::kStep, Quantity::kCounter);
  Start();
  trace_->RecordCounter(site, 7);
  for (int rank = 0; rank < 4; ++rank) {
    comparer_->ProbeOf(rank).ObserveCounter(site, rank == 2 ? 8 : 7);
  }
  const Comparison comparison = Finish();
  ASSERT_EQ(comparison.divergences.size(), 1U);
  EXPECT_THAT(comparison.divergences[0].ranks, ElementsAre(2));
  EXPECT_EQ(comparison.divergences[0].actual, 8);
  EXPECT_EQ(comparison.divergences[0].reference, 7);
}

TEST_F(CompareTest, DivergencesComeInTheOrderOfTheReference) {
  Start();
  Reference(At("a"), {1}, {1});
  Reference(At("b"), {1}, {1});
  for (const auto* tensor : {"b", "a"}) {
    for (int rank = 0; rank < 4; ++rank) Show(rank, At(tensor), LayoutOf(rank, {1}, {}), {2});
  }
  const Comparison comparison = Finish();
  ASSERT_EQ(comparison.divergences.size(), 2U);
  EXPECT_EQ(comparison.divergences[0].site.tensor, "a");
  EXPECT_EQ(comparison.divergences[1].site.tensor, "b");
}

TEST_F(CompareTest, OrderInWhichRanksShowDoesNotMatter) {
  const std::vector<double> whole = {1, 2, 3, 4};
  std::vector<int> order = {0, 1, 2, 3};
  do {
    Start();
    Reference(At("a"), {4}, whole);
    for (const int rank : order) {
      Show(rank, At("a"), LayoutOf(rank, {4}, {}), whole, rank == 0 ? -1 : 2, rank == 1 ? 5 : 1);
    }
    const Comparison comparison = Finish();
    ASSERT_EQ(comparison.divergences.size(), 1U);
    EXPECT_THAT(comparison.divergences[0].ranks, ElementsAre(1, 2, 3));
    EXPECT_EQ(comparison.divergences[0].rank, 1);
    EXPECT_EQ(comparison.divergences[0].actual, 5);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_F(CompareTest, AdvanceIsReportedOncePerStepAndMicrobatch) {
  Start();
  std::vector<int> seen;
  comparer_->OnAdvance([&](const Site& site) { seen.push_back(site.microbatch); });
  for (const int microbatch : {0, 1}) {
    for (const auto* tensor : {"a", "b"}) {
      const Site site = At(tensor, Phase::kForward, Quantity::kValue, microbatch);
      Reference(site, {1}, {1});
      for (const int rank : {2 * microbatch, 2 * microbatch + 1}) {
        Show(rank, site, LayoutOf(rank, {1}, {}), {1});
      }
    }
  }
  EXPECT_THAT(Finish().divergences, IsEmpty());
  EXPECT_THAT(seen, ElementsAre(0, 1));
}

}  // namespace
}  // namespace plumbline
