#include "oracle/layer.h"

#include <gtest/gtest.h>

#include "tests/oracle/fixtures.h"
#include "tests/oracle/operator_check.h"

namespace plumbline {
namespace {

TEST(LayerTest, QkvRowsGoGroupByGroup) {
  TransformerConfig config;
  config.num_attention_heads = 4;
  config.num_query_groups = 2;
  config.kv_channels = 1;
  Matrix<double> fused(1, 8);
  fused << 0, 1, 100, 200, 2, 3, 101, 201;
  const Qkv<double> parts = internal::SplitQkv(config, fused);
  for (int head = 0; head < 4; ++head) EXPECT_EQ(parts.q(0, head), head);
  for (int group = 0; group < 2; ++group) {
    EXPECT_EQ(parts.k(0, group), 100 + group);
    EXPECT_EQ(parts.v(0, group), 200 + group);
  }
  EXPECT_EQ(internal::MergeQkv(config, parts), fused);
}

// The layer's derivatives are checked through the model's parameters (gradcheck_test.cc) and its
// recorded activations (reference_test.cc).
TEST(LayerTest, SplitAndMergeAreInverse) {
  for (const ModelCase& c : AllCases()) {
    const Matrix<double> fused = RandomMatrix(1, 3, c.model.qkv_size());
    EXPECT_EQ(internal::MergeQkv(c.model, internal::SplitQkv(c.model, fused)), fused) << c.name;
  }
}

}  // namespace
}  // namespace plumbline
