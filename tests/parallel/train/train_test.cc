#include "parallel/train/train.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/init.h"
#include "base/rng.h"
#include "tests/base/sweep.h"
#include "tests/parallel/train/model_shapes.h"
#include "tests/parallel/train/run_layout.h"

namespace plumbline {
namespace {

// f64: rounding of correct layouts stays below 1e-13, mistakes start at 1e-8.
constexpr double kBound = 1e-11;

struct Layout {
  int shape;  // of ModelShapes()
  int tp;
  int dp;
  bool sequence_parallel;
  GqaPolicy policy;
};

RunConfig ConfigOf(const Layout& layout) {
  RunConfig config = ModelShapes()[layout.shape].config;
  // At least two microbatches a rank.
  config.train.global_batch_size = layout.dp % 3 == 0 ? 24 : 32;
  config.parallel.tp = layout.tp;
  config.parallel.dp = layout.dp;
  config.parallel.sequence_parallel = layout.sequence_parallel;
  config.parallel.gqa_policy = layout.policy;
  return config;
}

std::string NameOf(const Layout& layout) {
  return ModelShapes()[layout.shape].name + "tp" + std::to_string(layout.tp) + "dp" +
         std::to_string(layout.dp) + (layout.sequence_parallel ? "sp" : "") +
         (layout.policy == GqaPolicy::kReplicateKv ? "replicate" : "");
}
void PrintTo(const Layout& layout, std::ostream* out) { *out << NameOf(layout); }

// The same training on one rank; each is run once.
RunConfig OneRankConfig(const Layout& layout) {
  RunConfig config = ConfigOf(layout);
  config.parallel = ParallelConfig{};
  return config;
}
const LayoutRun& OneRank(const Layout& layout) {
  static std::map<std::pair<int, int64_t>, LayoutRun> runs;
  const RunConfig config = OneRankConfig(layout);
  const std::pair<int, int64_t> key = {layout.shape, config.train.global_batch_size};
  const auto found = runs.find(key);
  if (found != runs.end()) return found->second;
  return runs.emplace(key, RunLayout(config)).first->second;
}

class TrainTest : public testing::TestWithParam<Layout> {};

TEST_P(TrainTest, EqualsOneRank) {
  const RunConfig config = ConfigOf(GetParam());
  const LayoutRun run = RunLayout(config);
  const LayoutRun& reference = OneRank(GetParam());
  EXPECT_EQ(run.complaints, std::vector<std::string>{});
  EXPECT_EQ(Differences(run, config, reference, OneRankConfig(GetParam()), kBound), "");
  EXPECT_EQ(run.counters, reference.counters);
  // Nothing has been summed before here, so that not a bit may differ.
  EXPECT_EQ(
      run.At("step 1 microbatch 0 forward decoder.layers.0.self_attention.linear_qkv value"),
      reference.At("step 1 microbatch 0 forward decoder.layers.0.self_attention.linear_qkv value"));
}

TEST_P(TrainTest, SequenceParallelismChangesNoBitOfAForward) {
  RunConfig config = ConfigOf(GetParam());
  if (!config.parallel.sequence_parallel) return;
  config.train.steps = 1;
  const LayoutRun with = RunLayout(config);
  config.parallel.sequence_parallel = false;
  const LayoutRun without = RunLayout(config);
  int compared = 0;
  for (const auto& [name, tensor] : without.tensors) {
    if (tensor.site.phase != Phase::kForward && tensor.site.phase != Phase::kInit) continue;
    EXPECT_EQ(with.At(name), tensor.values) << name;
    ++compared;
  }
  EXPECT_GT(compared, 100);
}

std::vector<Layout> Layouts() {
  std::vector<Layout> layouts;
  for (int shape = 0; shape < static_cast<int>(ModelShapes().size()); ++shape) {
    const int64_t groups = ModelShapes()[shape].config.model.num_query_groups;
    for (int tp : {1, 2, 4, 8}) {
      for (int dp : {1, 2, 3, 4, 6, 8}) {
        if (tp * dp > 8) continue;
        for (bool sequence_parallel : {false, true}) {
          if (sequence_parallel && tp == 1) continue;
          layouts.push_back({shape, tp, dp, sequence_parallel, GqaPolicy::kGatherQkv});
          if (tp <= groups) continue;
          layouts.push_back({shape, tp, dp, sequence_parallel, GqaPolicy::kReplicateKv});
        }
      }
    }
  }
  return SweepOf(std::move(layouts));
}

INSTANTIATE_TEST_SUITE_P(Layouts, TrainTest, testing::ValuesIn(Layouts()),
                         [](const auto& info) { return NameOf(info.param); });

RunConfig SmallConfig(int tp, int dp, bool sequence_parallel) {
  RunConfig config = ModelShapes()[0].config;
  config.train.global_batch_size = 8;
  config.train.steps = 2;
  config.parallel.tp = tp;
  config.parallel.dp = dp;
  config.parallel.sequence_parallel = sequence_parallel;
  return config;
}

TEST(Train, AnyScheduleGivesTheSameBits) {
  const RunConfig config = SmallConfig(2, 2, true);
  const LayoutRun first = RunLayout(config);
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    LayoutOptions options;
    options.schedule = SchedulePolicy::kRandom;
    options.schedule_seed = seed;
    const LayoutRun run = RunLayout(config, options);
    ASSERT_EQ(run.tensors.size(), first.tensors.size());
    for (const auto& [name, tensor] : first.tensors) {
      // A sum over copies is put together in the order in which they are shown.
      EXPECT_EQ(run.At(name), tensor.values) << name << " seed " << seed;
    }
  }
}

TEST(Train, AnyMeshOrderGivesTheSameNumbers) {
  RunConfig config = SmallConfig(2, 2, false);
  const LayoutRun usual = RunLayout(config);
  config.parallel.order = "dp-cp-ep-tp-pp";
  const LayoutRun other = RunLayout(config);
  EXPECT_EQ(other.complaints, std::vector<std::string>{});
  EXPECT_EQ(Differences(other, config, usual, config, 0), "");
}

// Seeded parameters moved along a random direction.
class MovedParameters : public ParameterSource {
 public:
  MovedParameters(const RunConfig& config, double distance)
      : seeded_(config.model, config.train.seed), distance_(distance) {}
  void Fill(const std::string& name, const Shape& global_shape,
            const std::vector<int64_t>& global_index, Tensor& local) const override {
    seeded_.Fill(name, global_shape, global_index, local);
    for (size_t i = 0; i < global_index.size(); ++i) {
      if (global_index[i] < 0) continue;
      local.data<double>()[i] += distance_ * Direction(name, global_index[i]);
    }
  }
  static double Direction(const std::string& name, int64_t index) {
    return DataStream(1, name).Normal(static_cast<uint64_t>(index));
  }

 private:
  SeededParameters seeded_;
  double distance_;
};

// Both normalisations, with unequal counts of labels in the microbatches.
TEST(Train, MainGradIsTheDerivativeOfTheStepsLoss) {
  for (int shape : {0, 1}) {
    RunConfig config = ModelShapes()[shape].config;
    config.train.global_batch_size = 8;
    config.train.steps = 1;
    config.parallel.tp = 2;
    config.parallel.dp = 2;
    const auto loss_at = [&](double distance) {
      const MovedParameters moved(config, distance);
      LayoutOptions options;
      options.parameters = &moved;
      return RunLayout(config, options).At("step 1 finalize lm_loss value")[0];
    };
    const double h = 3e-5;
    const double derivative =
        (8 * (loss_at(h) - loss_at(-h)) - (loss_at(2 * h) - loss_at(-2 * h))) / (12 * h);
    double product = 0;
    for (const auto& [name, tensor] : RunLayout(config).tensors) {
      if (tensor.site.quantity != Quantity::kMainGrad) continue;
      for (size_t i = 0; i < tensor.values.size(); ++i) {
        product += tensor.values[i] * MovedParameters::Direction(tensor.site.tensor, i);
      }
    }
    EXPECT_NEAR(product, derivative, 1e-7 * std::abs(derivative)) << ModelShapes()[shape].name;
  }
}

TEST(Train, PaddedVocabularyTakesPartUnderMegatronsRule) {
  RunConfig config = SmallConfig(1, 1, false);
  config.model.vocab_padding = VocabPadding::kMegatron;
  config.model.vocab_size = 250;
  config.model.padded_vocab_size = 256;  // On one rank and on two.
  const LayoutRun one = RunLayout(config);
  RunConfig sharded = config;
  sharded.parallel.tp = 2;
  EXPECT_EQ(Differences(RunLayout(sharded), sharded, one, config, kBound), "");
  const std::vector<double>& gradient =
      one.At("step 1 finalize embedding.word_embeddings.weight main_grad");
  EXPECT_NE(gradient[(config.model.padded_vocab_size - 1) * config.model.hidden_size], 0);
}

TEST(Train, TheSumForTheMeanGivesDpTimesTheGradient) {
  const RunConfig config = SmallConfig(2, 4, false);
  const LayoutRun right = RunLayout(config);
  LayoutOptions options;
  options.policies.data_parallel.reduce_op_per_microbatch = ReduceOp::kSum;
  const LayoutRun wrong = RunLayout(config, options);
  const std::string site = "step 1 finalize decoder.layers.1.mlp.linear_fc2.weight main_grad";
  std::vector<double> expected = right.At(site);
  for (double& value : expected) value *= 4;
  EXPECT_LE(DeviationOf(wrong.At(site), expected), kBound);
}

TEST(Train, AnUnsummedNormGradientLetsReplicasDrift) {
  LayoutOptions options;
  options.policies.sum_sequence_parallel_gradient = [](const std::string& name) {
    return name != "decoder.layers.1.input_layernorm.weight";
  };
  const LayoutRun run = RunLayout(SmallConfig(2, 1, true), options);
  ASSERT_FALSE(run.complaints.empty());
  EXPECT_NE(run.complaints[0].find("step 1 finalize decoder.layers.1.input_layernorm.weight"),
            std::string::npos)
      << run.complaints[0];
}

TEST(Train, OneRankMakesNoCollective) {
  EXPECT_EQ(RunLayout(SmallConfig(1, 1, false)).collectives, 0);
}

TEST(Train, SinglePrecisionRuns) {
  RunConfig config = SmallConfig(2, 2, true);
  const LayoutRun exact = RunLayout(config);
  config.dtype = DType::kF32;
  const LayoutRun rounded = RunLayout(config);
  EXPECT_EQ(rounded.complaints, std::vector<std::string>{});
  const double deviation = DeviationOf(rounded.At("step 1 finalize lm_loss value"),
                                       exact.At("step 1 finalize lm_loss value"));
  EXPECT_LE(deviation, 1e-5);
  EXPECT_GT(deviation, 0);
}

TEST(Train, RefusesAnIllegalConfiguration) {
  RunConfig config = SmallConfig(2, 1, false);
  config.train.global_batch_size = 3;
  EXPECT_THROW(RunLayout(config), InvalidArgument);
}

}  // namespace
}  // namespace plumbline
