#include "cli/data_parallel_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/run_options.h"

namespace plumbline {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

using Words = std::vector<std::string>;

RunOptions Options(Words words) {
  words.insert(words.begin(), "verify");
  return MakeRunOptions(ParseCommandLine(words));
}

DataParallelConfig DataOf(Words words) { return Options(std::move(words)).config.parallel.data; }

std::string ErrorOf(Words words) {
  try {
    Options(std::move(words));
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(DataParallelOptionsTest, WithoutAnyFlagNothingChanges) {
  const DataParallelConfig data = DataOf({});
  EXPECT_FALSE(data.gradient_buffers);
  EXPECT_EQ(data.sharding_strategy, ShardingStrategy::kNoShard);
  EXPECT_FALSE(data.grads_in_param_dtype);
  EXPECT_FALSE(DataOf({"--dtype", "f32"}).gradient_buffers);
  EXPECT_FALSE(DataOf({"--data-parallel-sharding-strategy", "no_shard"}).gradient_buffers);
}

TEST(DataParallelOptionsTest, EveryFlagIsReadAndTurnsBuffersOn) {
  const DataParallelConfig data = DataOf(
      {"--dp", "4", "--use-distributed-optimizer", "--overlap-grad-reduce",
       "--overlap-param-gather", "--ddp-bucket-size", "5000", "--ddp-average-in-collective",
       "--ddp-pad-buckets-for-high-nccl-busbw", "--num-distributed-optimizer-instances", "2"});
  EXPECT_TRUE(data.gradient_buffers);
  EXPECT_EQ(data.sharding_strategy, ShardingStrategy::kOptim);
  EXPECT_TRUE(data.overlap_grad_reduce);
  EXPECT_TRUE(data.overlap_param_gather);
  EXPECT_EQ(data.bucket_size, 5000);
  EXPECT_TRUE(data.average_in_collective);
  EXPECT_TRUE(data.pad_buckets_for_high_nccl_busbw);
  EXPECT_EQ(data.num_distributed_optimizer_instances, 2);
  for (const char* flag :
       {"--use-distributed-optimizer", "--overlap-grad-reduce", "--ddp-average-in-collective",
        "--use-megatron-fsdp", "--use-custom-fsdp", "--bf16", "--fp16"}) {
    EXPECT_TRUE(DataOf({flag}).gradient_buffers) << flag;
  }
  EXPECT_TRUE(DataOf({"--dtype", "bf16"}).gradient_buffers);
}

TEST(DataParallelOptionsTest, FsdpSharesOutWhatItsStrategySays) {
  const auto strategy = [](Words words) {
    words.insert(words.begin(), "--use-megatron-fsdp");
    return DataOf(std::move(words)).sharding_strategy;
  };
  EXPECT_EQ(strategy({"--data-parallel-sharding-strategy", "optim"}), ShardingStrategy::kOptim);
  EXPECT_EQ(strategy({"--data-parallel-sharding-strategy", "optim_grads"}),
            ShardingStrategy::kOptimGrads);
  EXPECT_EQ(strategy({"--data-parallel-sharding-strategy", "optim_grads_params",
                      "--use-distributed-optimizer"}),
            ShardingStrategy::kOptimGradsParams);
  EXPECT_EQ(strategy({"--use-distributed-optimizer"}), ShardingStrategy::kNoShard);
  EXPECT_THAT(Options({"--use-megatron-fsdp"}).notes, Contains(HasSubstr("shards nothing")));
  EXPECT_THAT(ErrorOf({"--use-megatron-fsdp", "--data-parallel-sharding-strategy", "zero3"}),
              HasSubstr("expected no_shard or optim or optim_grads or optim_grads_params"));
}

TEST(DataParallelOptionsTest, NumberOfBucketsDividesTheFirstStagesElements) {
  const Words small = {"--tp",          "1",  "--num-layers",          "2",
                       "--hidden-size", "64", "--num-attention-heads", "8",
                       "--vocab-size",  "100"};
  Words words = small;
  words.insert(words.end(), {"--overlap-grad-reduce", "--ddp-num-buckets", "3"});
  // 100 words and 16 positions of 64; two layers of 4 * 64 norms, 192 * 65 qkv, 64 * 65 proj, 256 *
  // 65 up, 64 * 257 down; 2 * 64 final norm.
  const int64_t layer = 4 * 64 + 192 * 65 + 64 * 65 + 256 * 65 + 64 * 257;
  EXPECT_EQ(DataOf(words).bucket_size, (116 * 64 + 2 * layer + 2 * 64) / 3);
  EXPECT_THAT(ErrorOf({"--ddp-num-buckets", "0"}), HasSubstr("must be at least 1"));
  EXPECT_THAT(ErrorOf({"--ddp-bucket-size", "0"}), HasSubstr("must be at least 1"));
  EXPECT_THAT(ErrorOf({"--ddp-num-buckets", "100000000"}), HasSubstr("elements"));
}

TEST(DataParallelOptionsTest, GradientsAreInFp32AsMegatronDecides) {
  EXPECT_EQ(Options({"--bf16"}).config.grad_dtype(), DType::kF32);
  EXPECT_EQ(Options({"--bf16", "--grad-reduce-in-bf16"}).config.grad_dtype(), DType::kBF16);
  EXPECT_EQ(Options({"--dtype", "bf16", "--grad-reduce-in-bf16"}).config.grad_dtype(),
            DType::kBF16);
  EXPECT_EQ(Options({"--fp16"}).config.grad_dtype(), DType::kF16);
  EXPECT_EQ(Options({"--fp16", "--accumulate-allreduce-grads-in-fp32"}).config.grad_dtype(),
            DType::kF32);
  EXPECT_EQ(Options({"--accumulate-allreduce-grads-in-fp32"}).config.grad_dtype(), DType::kF64);
  const RunOptions both =
      Options({"--bf16", "--grad-reduce-in-bf16", "--accumulate-allreduce-grads-in-fp32"});
  EXPECT_EQ(both.config.grad_dtype(), DType::kBF16);
  EXPECT_THAT(both.notes, Contains(HasSubstr("switched off by --grad-reduce-in-bf16")));
  EXPECT_THAT(Options({"--fp16"}).notes, Contains(HasSubstr("without loss scaling")));
}

TEST(DataParallelOptionsTest, SettingsWithoutEffectAreNoted) {
  EXPECT_THAT(Options({"--ddp-bucket-size", "100"}).notes,
              Contains(HasSubstr("no effect without --overlap-grad-reduce")));
  EXPECT_THAT(Options({"--ddp-bucket-size", "100", "--overlap-grad-reduce"}).notes, IsEmpty());
}

// Words that break the rule, and legal ones beside them.
struct Case {
  const char* name;
  Words broken;
  Words legal;
};

const std::vector<Case>& FlagCases() {
  static const std::vector<Case> cases = {
      {"one-low-precision", {"--bf16", "--fp16"}, {"--bf16"}},
      {"one-bucket-size",
       {"--ddp-bucket-size", "100", "--ddp-num-buckets", "2"},
       {"--ddp-num-buckets", "2"}},
      {"one-dtype", {"--bf16", "--dtype", "f64"}, {"--dtype", "bf16"}},
      {"sharding-needs-fsdp",
       {"--data-parallel-sharding-strategy", "optim_grads"},
       {"--data-parallel-sharding-strategy", "optim_grads", "--use-megatron-fsdp"}},
      {"bf16-reduction-needs-bf16",
       {"--fp16", "--grad-reduce-in-bf16"},
       {"--bf16", "--grad-reduce-in-bf16"}},
  };
  return cases;
}

TEST(DataParallelOptionsTest, BrokenFlagRulesAreNamedAndTheirTwinsAreLegal) {
  std::set<std::string> seen;
  for (const Case& each : FlagCases()) {
    EXPECT_THAT(ErrorOf(each.broken), HasSubstr(std::string("(rule ") + each.name + ")"));
    EXPECT_EQ(ErrorOf(each.legal), "no error") << each.name;
    seen.insert(each.name);
  }
  std::set<std::string> rules;
  for (const FlagRule& rule : DataParallelFlagRules()) rules.emplace(rule.name);
  EXPECT_EQ(seen, rules);
}

TEST(DataParallelOptionsTest, RulesOfARunAreReachedFromFlags) {
  EXPECT_THAT(ErrorOf({"--overlap-param-gather", "--overlap-grad-reduce"}),
              HasSubstr("--overlap-param-gather needs --use-distributed-optimizer"));
  EXPECT_THAT(ErrorOf({"--use-distributed-optimizer", "--dp", "2",
                       "--num-distributed-optimizer-instances", "4"}),
              HasSubstr("must divide"));
}

TEST(DataParallelOptionsTest, SettingsShowWhatActs) {
  const auto shown = [](Words words) {
    std::set<std::string> names;
    for (const Setting& setting : Options(std::move(words)).settings) {
      if (setting.acts) names.insert(setting.name);
    }
    return names;
  };
  EXPECT_THAT(shown({}), Not(Contains("ddp-bucket-size")));
  EXPECT_THAT(shown({"--overlap-grad-reduce"}), Contains("ddp-bucket-size"));
  EXPECT_THAT(shown({"--use-distributed-optimizer"}),
              Contains("num-distributed-optimizer-instances"));
}

TEST(DataParallelOptionsTest, TheRepeatLineKeepsTheFlags) {
  EXPECT_EQ(
      Options({"--use-custom-fsdp", "--data-parallel-sharding-strategy", "optim_grads", "--bf16"})
          .repeat,
      "plumbline verify --tp 2 --dp 2 --use-megatron-fsdp --data-parallel-sharding-strategy "
      "optim_grads --bf16 --seed 1234");
}

TEST(DescribedConfigTest, HasBuffersAndMayBeOfAnySize) {
  std::vector<std::string> notes;
  const RunConfig config = MakeDescribedConfig(
      ParseCommandLine({"verify", "--num-layers", "96", "--hidden-size", "12288",
                        "--num-attention-heads", "96", "--tp", "8", "--pp", "8", "--dp", "64",
                        "--cp", "2", "--use-distributed-optimizer"}),
      &notes);
  EXPECT_TRUE(config.parallel.data.gradient_buffers);
  EXPECT_EQ(config.parallel.cp, 2);
  EXPECT_EQ(config.parallel.world_size(), 8 * 8 * 64 * 2);
}

}  // namespace
}  // namespace plumbline
