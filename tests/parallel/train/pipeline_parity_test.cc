// Every legal pipeline against the same training on one stage: same tensor- and data-parallel
// sizes, same layers, same microbatches.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "parallel/pipeline/stage_layout.h"
#include "parallel/train/train.h"
#include "tests/base/sweep.h"
#include "tests/parallel/train/model_shapes.h"
#include "tests/parallel/train/run_layout.h"

namespace plumbline {
namespace {

// f64: rounding of correct layouts stays below 1e-13, mistakes start at 1e-8.
constexpr double kBound = 1e-11;

RunConfig MakeConfig(int shape, int tp, int dp, int64_t layers, int microbatches) {
  RunConfig config = ModelShapes()[static_cast<size_t>(shape)].config;
  config.model.num_layers = layers;
  config.train.steps = 2;
  config.train.global_batch_size = config.train.micro_batch_size * microbatches * dp;
  config.parallel.tp = tp;
  config.parallel.dp = dp;
  config.parallel.sequence_parallel = tp > 1;
  return config;
}

// Each is run once.
const LayoutRun& OneStage(const RunConfig& config, int shape) {
  static std::map<std::tuple<int, int, int, int64_t, int64_t>, LayoutRun> runs;
  const auto key = std::tuple(shape, config.parallel.tp, config.parallel.dp,
                              config.model.num_layers, config.train.global_batch_size);
  const auto found = runs.find(key);
  if (found != runs.end()) return found->second;
  RunConfig one = config;
  one.parallel = ParallelConfig{};
  one.parallel.tp = config.parallel.tp;
  one.parallel.dp = config.parallel.dp;
  one.parallel.sequence_parallel = config.parallel.sequence_parallel;
  return runs.emplace(key, RunLayout(one)).first->second;
}

// A table that two stages hold adds its two terms in another order than one stage does.
bool AddsInAnotherOrder(const Site& site, const RunConfig& config) {
  return config.parallel.pp > 1 && config.model.tied_embeddings &&
         site.tensor == "embedding.word_embeddings.weight";
}

// Up to the end of the first backward every sum is over the same terms in the same order.
void ExpectSameBits(const LayoutRun& run, const LayoutRun& one, const RunConfig& config) {
  int compared = 0;
  for (const auto& [name, tensor] : one.tensors) {
    const bool early = tensor.site.step <= 1 && tensor.site.phase <= Phase::kFinalize;
    if (!early || AddsInAnotherOrder(tensor.site, config)) continue;
    EXPECT_EQ(run.At(name), tensor.values) << name;
    ++compared;
  }
  EXPECT_GT(compared, 50);
}

struct Cell {
  int shape;
  RunConfig config;
  std::string name;
};

bool IsLegal(const RunConfig& config) {
  try {
    ScheduleConfigOf(config);
    return true;
  } catch (const InvalidArgument&) {
    return false;
  }
}

// The legal ones of a schedule and a number of stages.
std::vector<Cell> LegalCells(const std::string& schedule, int pp) {
  std::vector<Cell> cells;
  for (int shape : {0, 1, 2}) {  // tied with learned positions, untied per token, tied
    for (int tp : {1, 2}) {
      for (int dp : {1, 2}) {
        for (int chunks : {1, 2, 3}) {
          for (int microbatches : {1, 2, 5, 6, 8}) {
            RunConfig config = MakeConfig(shape, tp, dp, pp * chunks, microbatches);
            config.parallel.pp = pp;
            config.parallel.schedule = schedule;
            config.parallel.virtual_stages = chunks;
            if (!IsLegal(config)) continue;
            // The third shape runs with recomputation.
            if (shape == 2) {
              config.parallel.recompute_granularity = RecomputeGranularity::kFull;
            }
            cells.push_back({shape, config,
                             ModelShapes()[static_cast<size_t>(shape)].name + " tp " +
                                 std::to_string(tp) + " dp " + std::to_string(dp) + " chunks " +
                                 std::to_string(chunks) + " microbatches " +
                                 std::to_string(microbatches)});
          }
        }
      }
    }
  }
  return cells;
}

class PipelineParityTest : public testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(PipelineParityTest, EqualsOneStage) {
  const auto& [schedule, pp] = GetParam();
  const std::vector<Cell> cells = SweepOf(LegalCells(schedule, pp));
  ASSERT_FALSE(cells.empty());
  for (const Cell& cell : cells) {
    SCOPED_TRACE(schedule + " pp " + std::to_string(pp) + " " + cell.name);
    const LayoutRun run = RunLayout(cell.config);
    const LayoutRun& one = OneStage(cell.config, cell.shape);
    ASSERT_EQ(run.complaints, std::vector<std::string>{});
    ASSERT_EQ(Differences(run, cell.config, one, cell.config, kBound), "");
    EXPECT_EQ(run.counters, one.counters);
    ExpectSameBits(run, one, cell.config);
    if (HasFailure()) return;
  }
}

std::vector<std::tuple<std::string, int>> SchedulesAndStages() {
  std::vector<std::tuple<std::string, int>> all;
  for (const ScheduleKind kind : kAllScheduleKinds) {
    for (int pp : {1, 2, 3, 4, 8}) {
      if (kind == ScheduleKind::kInterleaved && pp == 1) continue;  // below: refused
      all.emplace_back(Name(kind), pp);
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, PipelineParityTest, testing::ValuesIn(SchedulesAndStages()),
                         [](const auto& info) {
                           std::string name = std::get<0>(info.param);
                           for (char& c : name) {
                             if (c == '-') c = '_';
                           }
                           return name + "_pp" + std::to_string(std::get<1>(info.param));
                         });

TEST(PipelineParity, InterleavingOnOneStageIsRefused) {
  EXPECT_TRUE(LegalCells("interleaved", 1).empty());
}

// The tied table's two terms too, which differ from one stage's only in their order.
TEST(PipelineParity, AllSchedulesGiveTheSameGradientBits) {
  const std::string table = "step 1 finalize embedding.word_embeddings.weight main_grad";
  std::vector<double> first;
  for (const ScheduleKind kind : kAllScheduleKinds) {
    RunConfig config = MakeConfig(0, 2, 2, 8, 8);
    config.parallel.pp = 4;
    config.parallel.schedule = Name(kind);
    config.parallel.virtual_stages = kind == ScheduleKind::kInterleaved ? 2 : 1;
    const LayoutRun run = RunLayout(config);
    if (first.empty()) first = run.At(table);
    EXPECT_EQ(run.At(table), first) << Name(kind);
  }
}

TEST(PipelineParity, UnevenSplitsAndLayoutsEqualOneStage) {
  const auto expect = [](RunConfig config, int shape) {
    const LayoutRun run = RunLayout(config);
    const LayoutRun& one = OneStage(config, shape);
    EXPECT_EQ(run.complaints, std::vector<std::string>{});
    EXPECT_EQ(Differences(run, config, one, config, kBound), "");
    ExpectSameBits(run, one, config);
  };
  for (int shape : {0, 1}) {
    RunConfig config = MakeConfig(shape, 2, 2, 5, 6);
    config.parallel.pp = 3;
    config.parallel.decoder_first_pipeline_num_layers = 1;
    config.parallel.decoder_last_pipeline_num_layers = 2;
    expect(config, shape);
    config.parallel.decoder_first_pipeline_num_layers = 0;
    config.parallel.decoder_last_pipeline_num_layers = 0;
    config.parallel.pipeline_layout = "E|t*4|tL";
    expect(config, shape);
    // A stage without layers; on two stages its neighbours are one rank.
    config.parallel.pp = 2;
    config.parallel.pipeline_layout = "Et*2||t*3|L";
    expect(config, shape);
    config.parallel.schedule = "interleaved";
    expect(config, shape);
  }
}

TEST(PipelineParity, RecomputationChangesNoBit) {
  RunConfig config = MakeConfig(0, 2, 1, 4, 5);
  config.parallel.pp = 2;
  const LayoutRun kept = RunLayout(config);
  config.parallel.recompute_granularity = RecomputeGranularity::kFull;
  const LayoutRun again = RunLayout(config);
  EXPECT_GT(again.collectives, kept.collectives);  // it did compute again
  for (const auto& [name, tensor] : kept.tensors) EXPECT_EQ(again.At(name), tensor.values) << name;
}

TEST(PipelineParity, AnyInterleavingOfRanksGivesTheSameBits) {
  RunConfig config = MakeConfig(0, 1, 2, 6, 6);
  config.parallel.pp = 3;
  config.parallel.virtual_stages = 2;
  const LayoutRun first = RunLayout(config);
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    LayoutOptions options;
    options.schedule = SchedulePolicy::kRandom;
    options.schedule_seed = seed;
    const LayoutRun run = RunLayout(config, options);
    for (const auto& [name, tensor] : first.tensors) EXPECT_EQ(run.At(name), tensor.values) << name;
  }
}

RunConfig FourStages(int shape) {
  RunConfig config = MakeConfig(shape, 2, 2, 4, 6);
  config.parallel.pp = 4;
  return config;
}

// What a wrong decision does, and that it stays away from what it should not touch.
std::string WrongTensors(const RunConfig& config, int shape, const LayoutOptions& options) {
  return Differences(RunLayout(config, options), config, OneStage(config, shape), config, kBound);
}

TEST(PipelineParity, TheTiedSumMissingTwiceOrEarlyIsNotTheGradient) {
  const std::string table = "step 1 finalize embedding.word_embeddings.weight main_grad";
  for (int reductions : {0, 2}) {
    LayoutOptions options;
    options.policies.tied_embedding.reductions = reductions;
    const LayoutRun run = RunLayout(FourStages(0), options);
    const std::vector<double>& right = OneStage(FourStages(0), 0).At(table);
    EXPECT_FALSE(DeviationOf(run.At(table), right) <= kBound) << reductions;
  }
  LayoutOptions early;
  early.policies.tied_embedding.after_microbatch = [](int) { return 2; };
  const LayoutRun run = RunLayout(FourStages(0), early);
  EXPECT_FALSE(DeviationOf(run.At(table), OneStage(FourStages(0), 0).At(table)) <= kBound);
}

TEST(PipelineParity, EachWrongDecisionIsSeen) {
  const auto seen = [](const std::function<void(Policies&)>& change, RunConfig config) {
    LayoutOptions options;
    change(options.policies);
    const LayoutRun run = RunLayout(config, options);
    const LayoutRun& one = OneStage(config, 0);
    return !run.complaints.empty() || run.counters != one.counters ||
           !Differences(run, config, one, config, kBound).empty();
  };
  const RunConfig config = FourStages(0);
  EXPECT_FALSE(seen([](Policies&) {}, config));
  EXPECT_TRUE(seen([](Policies& p) { p.loss_divisor = [](int64_t) { return 1; }; }, config));
  EXPECT_TRUE(seen([](Policies& p) { p.loss_divisor = [](int64_t m) { return m * m; }; }, config));
  EXPECT_TRUE(seen(
      [](Policies& p) { p.data_parallel.after_microbatch = [](int m) { return m - 2; }; }, config));
  EXPECT_TRUE(seen(
      [](Policies& p) { p.pipeline.layer_number = [](int, int, int32_t) { return 0; }; }, config));
  EXPECT_TRUE(seen(
      [](Policies& p) {
        p.pipeline.runs_backward = [](int stage, int, int i) { return stage != 1 || i != 3; };
      },
      config));
  EXPECT_TRUE(seen(
      [](Policies& p) {
        p.pipeline.batches_skipped = [](int stage, int, int i) {
          return stage == 1 && i == 2 ? 1 : 0;
        };
      },
      config));
  RunConfig recompute = config;
  recompute.parallel.recompute_granularity = RecomputeGranularity::kFull;
  EXPECT_FALSE(seen([](Policies&) {}, recompute));
  EXPECT_TRUE(seen(
      [](Policies& p) {
        p.pipeline.recompute_mask_step = [](int32_t step) { return step + 1000; };
      },
      recompute));
}

TEST(PipelineParity, TheCopyOfATiedTableCountsOnceInTheNorm) {
  LayoutOptions options;
  options.policies.tied_embedding.counts_copy = true;
  EXPECT_EQ(WrongTensors(FourStages(0), 0, {}), "");
  EXPECT_NE(WrongTensors(FourStages(0), 0, options).find("grad_norm"), std::string::npos);
}

}  // namespace
}  // namespace plumbline
