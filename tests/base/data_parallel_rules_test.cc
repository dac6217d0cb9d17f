#include "base/data_parallel_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"

namespace plumbline {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::ThrowsMessage;

// A configuration that breaks the rule of that name alone, and the change that makes it legal.
struct Case {
  std::string name;
  std::function<void(RunConfig&)> break_it;
  std::function<void(RunConfig&)> mend;
};

DataParallelConfig& Data(RunConfig& config) { return config.parallel.data; }

void Shard(RunConfig& config) { Data(config).sharding_strategy = ShardingStrategy::kOptim; }

const std::vector<Case>& Cases() {
  static const std::vector<Case> cases = {
      {"param-gather-needs-distributed-optimizer",
       [](RunConfig& c) {
         Data(c).overlap_param_gather = true;
         Data(c).overlap_grad_reduce = true;
       },
       Shard},
      {"param-gather-needs-grad-reduce",
       [](RunConfig& c) {
         Shard(c);
         Data(c).overlap_param_gather = true;
       },
       [](RunConfig& c) { Data(c).overlap_grad_reduce = true; }},
      {"instances-need-distributed-optimizer",
       [](RunConfig& c) { Data(c).num_distributed_optimizer_instances = 2; }, Shard},
      {"instances-divide-ranks",
       [](RunConfig& c) {
         Shard(c);
         Data(c).num_distributed_optimizer_instances = 8;
       },
       [](RunConfig& c) { c.parallel.cp = 2; }},
      {"no-average-per-token",
       [](RunConfig& c) {
         Data(c).average_in_collective = true;
         c.train.calculate_per_token_loss = true;
       },
       [](RunConfig& c) { c.train.calculate_per_token_loss = false; }},
      {"padding-needs-distributed-optimizer",
       [](RunConfig& c) { Data(c).pad_buckets_for_high_nccl_busbw = true; }, Shard},
      {"grads-in-param-dtype-need-low-precision",
       [](RunConfig& c) { Data(c).grads_in_param_dtype = true; },
       [](RunConfig& c) { c.dtype = DType::kBF16; }},
      {"one-instance-of-sharded-gradients",
       [](RunConfig& c) {
         Data(c).sharding_strategy = ShardingStrategy::kOptimGrads;
         Data(c).num_distributed_optimizer_instances = 2;
       },
       Shard},
      {"sharded-gradients-need-whole-backward",
       [](RunConfig& c) {
         Data(c).sharding_strategy = ShardingStrategy::kOptimGrads;
         c.parallel.schedule = "zb-h1";
       },
       [](RunConfig& c) {
         Data(c).sharding_strategy = ShardingStrategy::kOptimGrads;
         c.parallel.schedule = "1f1b";
       }},
      {"settings-need-buffers",
       [](RunConfig& c) {
         Data(c).gradient_buffers = false;
         Data(c).bucket_size = 100;
       },
       [](RunConfig& c) { Data(c).gradient_buffers = true; }},
      {"distributed-optimizer-needs-adam",
       [](RunConfig& c) {
         Shard(c);
         c.train.optimizer = OptimizerKind::kSgd;
       },
       [](RunConfig& c) { c.train.optimizer = OptimizerKind::kAdam; }},
  };
  return cases;
}

RunConfig Legal() {
  RunConfig config;
  config.parallel.dp = 4;
  config.train.global_batch_size = 8;
  config.parallel.data.gradient_buffers = true;
  return config;
}

std::set<std::string> BrokenRules(const RunConfig& config) {
  std::set<std::string> names;
  for (const DataParallelRule& rule : DataParallelRules()) {
    if (rule.broken(config)) names.emplace(rule.name);
  }
  return names;
}

const DataParallelRule& Find(const std::string& name) {
  for (const DataParallelRule& rule : DataParallelRules()) {
    if (rule.name == name) return rule;
  }
  throw Internal("no rule {}", name);
}

class DataParallelRuleTest : public testing::TestWithParam<Case> {};

TEST_P(DataParallelRuleTest, AloneIsBrokenAndItsLegalTwinBreaksNone) {
  RunConfig config = Legal();
  GetParam().break_it(config);
  EXPECT_EQ(BrokenRules(config), std::set<std::string>{GetParam().name});
  GetParam().mend(config);
  EXPECT_EQ(BrokenRules(config), std::set<std::string>{});
  EXPECT_NO_THROW(CheckDataParallel(config));
}

TEST_P(DataParallelRuleTest, ValidateNamesItUnlessLifted) {
  RunConfig config = Legal();
  GetParam().break_it(config);
  const DataParallelRule& rule = Find(GetParam().name);
  if (rule.source == RuleSource::kLifted) {
    EXPECT_NO_THROW(Validate(config));
    return;
  }
  EXPECT_THAT([&] { Validate(config); },
              ThrowsMessage<InvalidArgument>(
                  AllOf(HasSubstr(std::string(rule.text)), HasSubstr(GetParam().name))));
}

std::string CaseName(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.name;
  for (char& c : name) {
    if (c == '-') c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Rules, DataParallelRuleTest, testing::ValuesIn(Cases()), CaseName);

TEST(DataParallelRulesTest, EveryRuleHasACaseAndOneLine) {
  std::set<std::string> cases;
  for (const Case& each : Cases()) cases.insert(each.name);
  std::set<std::string> rules;
  for (const DataParallelRule& rule : DataParallelRules()) {
    EXPECT_TRUE(rules.emplace(rule.name).second) << rule.name;
    EXPECT_EQ(rule.text.find('\n'), std::string_view::npos);
  }
  EXPECT_EQ(cases, rules);
}

TEST(DataParallelRulesTest, PlainDataParallelismBreaksNone) {
  RunConfig config = Legal();
  EXPECT_TRUE(BrokenRules(config).empty());
  config.parallel.data = {};
  EXPECT_TRUE(BrokenRules(config).empty());
}

TEST(DataParallelRulesTest, SizesOutOfRangeAreRefusedBeforeTheRules) {
  RunConfig config = Legal();
  config.parallel.data.num_distributed_optimizer_instances = 0;
  EXPECT_THAT([&] { Validate(config); },
              ThrowsMessage<InvalidArgument>(
                  HasSubstr("--num-distributed-optimizer-instances 0: must be at least 1")));
  config = Legal();
  config.parallel.data.bucket_size = -1;
  EXPECT_THAT([&] { Validate(config); },
              ThrowsMessage<InvalidArgument>(HasSubstr("--ddp-bucket-size -1")));
}

}  // namespace
}  // namespace plumbline
