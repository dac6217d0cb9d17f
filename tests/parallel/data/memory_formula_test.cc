#include "parallel/data/memory_formula.h"

#include <gtest/gtest.h>

#include <string>

namespace plumbline {
namespace {

RunConfig Config(DType dtype, bool grads_in_param_dtype, ShardingStrategy strategy) {
  RunConfig config;
  config.dtype = dtype;
  config.parallel.data.grads_in_param_dtype = grads_in_param_dtype;
  config.parallel.data.sharding_strategy = strategy;
  return config;
}

struct Row {
  const char* name;
  DType dtype;
  bool grads_in_param_dtype;
  const char* text[4];  // by strategy
};

class PublishedFormulaTest : public testing::TestWithParam<Row> {};

TEST_P(PublishedFormulaTest, IsAsPublishedAndSharesOutMoreWithEachStrategy) {
  const ShardingStrategy strategies[] = {ShardingStrategy::kNoShard, ShardingStrategy::kOptim,
                                         ShardingStrategy::kOptimGrads,
                                         ShardingStrategy::kOptimGradsParams};
  for (int i = 0; i < 4; ++i) {
    const RunConfig config =
        Config(GetParam().dtype, GetParam().grads_in_param_dtype, strategies[i]);
    EXPECT_EQ(FormulaText(MemoryFormula(config)), GetParam().text[i]) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Dtypes, PublishedFormulaTest,
    testing::Values(Row{"fp16", DType::kF16, true, {"20", "4 + 16/d", "2 + 18/d", "20/d"}},
                    Row{"bf16", DType::kBF16, false, {"18", "6 + 12/d", "2 + 16/d", "18/d"}},
                    Row{"bf16grads", DType::kBF16, true, {"20", "4 + 16/d", "2 + 18/d", "20/d"}},
                    Row{"fp32", DType::kF32, false, {"16", "8 + 8/d", "4 + 12/d", "16/d"}},
                    Row{"f64", DType::kF64, false, {"32", "16 + 16/d", "8 + 24/d", "32/d"}}),
    [](const testing::TestParamInfo<Row>& info) { return std::string(info.param.name); });

TEST(MemoryFormulaTest, SgdHasOneMomentOrNone) {
  RunConfig config = Config(DType::kF32, false, ShardingStrategy::kOptim);
  config.train.optimizer = OptimizerKind::kSgd;
  EXPECT_EQ(FormulaText(MemoryFormula(config)), "8 + 4/d");
  config.train.sgd_momentum = 0;
  EXPECT_EQ(FormulaText(MemoryFormula(config)), "8");
}

TEST(MemoryFormulaTest, BytesOfARank) {
  const auto states = MemoryFormula(Config(DType::kBF16, false, ShardingStrategy::kOptim));
  EXPECT_DOUBLE_EQ(FormulaBytes(states, 100, 4), 900);
  EXPECT_EQ(Name(states.back().state), "moments");
}

}  // namespace
}  // namespace plumbline
