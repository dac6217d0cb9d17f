#include "parallel/tensor/qkv_layout.h"

#include <gtest/gtest.h>

#include <map>

#include "base/compare.h"
#include "base/error.h"
#include "kernels/elementwise.h"
#include "parallel/tensor/tap.h"
#include "tests/parallel/tensor/module_world.h"

namespace plumbline {
namespace {

// One group's 18 heads make 72 channels: an eighth of them ends inside a head.
constexpr int64_t kHeadSize = 4;

struct Case {
  int tp;
  int64_t heads;
  int64_t groups;
  GqaPolicy policy;
};

std::string CaseName(const Case& c) {
  return "tp" + std::to_string(c.tp) + "heads" + std::to_string(c.heads) + "groups" +
         std::to_string(c.groups) + (c.policy == GqaPolicy::kGatherQkv ? "gather" : "replicate");
}
void PrintTo(const Case& c, std::ostream* out) { *out << CaseName(c); }

class QkvLayoutTest : public testing::TestWithParam<Case> {
 protected:
  RunConfig config() const {
    RunConfig config = TensorParallelConfig(GetParam().tp, false);
    config.model.num_attention_heads = GetParam().heads;
    config.model.num_query_groups = GetParam().groups;
    config.model.kv_channels = kHeadSize;
    config.parallel.gqa_policy = GetParam().policy;
    return config;
  }
  Shape QkvShape() const { return {3, 2, config().model.qkv_size()}; }
  ObservedLayout Layout(const RankEnv& env, const CutAlong& cut) const {
    return MakeLayout(env, {"qkv", QkvShape(), {cut(2)}});
  }
  // What the heads of the unsharded linear_qkv are, by channel: the definition of its row order.
  int64_t QueryChannel(int64_t head, int64_t d) const {
    const TransformerConfig model = config().model;
    const int64_t group = head / model.heads_per_group();
    return (group * (model.heads_per_group() + 2) + head % model.heads_per_group()) *
               model.kv_channels +
           d;
  }
  // `which`: 0 for the key, 1 for the value.
  int64_t KeyChannel(int64_t group, int64_t which, int64_t d) const {
    const TransformerConfig model = config().model;
    return (group * (model.heads_per_group() + 2) + model.heads_per_group() + which) *
               model.kv_channels +
           d;
  }
};

TEST_P(QkvLayoutTest, SplitTakesTheRightHeads) {
  const RunConfig config = this->config();
  const Tensor whole = Indices(QkvShape());
  OnEachRank(config, [&](const RankEnv& env) {
    const QkvLayout layout(env);
    const QueryKeyValue split =
        layout.Split(PieceOfWhole(whole, Layout(env, layout.RowCut()).piece), {});
    PL_CHECK(split.query.shape() == Shape{3, 2, layout.heads(), kHeadSize});
    PL_CHECK(split.key.shape() == Shape{3, 2, layout.groups(), kHeadSize});
    PL_CHECK(split.value.shape() == split.key.shape());
    EXPECT_EQ(layout.heads() * env.tp_size(), config.model.num_attention_heads);
    for (int64_t s = 0; s < 3; ++s) {
      for (int64_t h = 0; h < layout.heads(); ++h) {
        const int64_t head = layout.first_head() + h;
        EXPECT_EQ(split.query.at<double>({s, 1, h, 1}),
                  whole.at<double>({s, 1, QueryChannel(head, 1)}));
        // The query's group is the one that the kernel takes: h / (heads / groups).
        const int64_t group = head / config.model.heads_per_group();
        const int64_t g = h / (layout.heads() / layout.groups());
        EXPECT_EQ(split.key.at<double>({s, 1, g, 0}),
                  whole.at<double>({s, 1, KeyChannel(group, 0, 0)}));
        EXPECT_EQ(split.value.at<double>({s, 1, g, 1}),
                  whole.at<double>({s, 1, KeyChannel(group, 1, 1)}));
      }
    }
  });
}

TEST_P(QkvLayoutTest, MergeIsTheTransposeOfSplit) {
  // <Split(x), y> summed over ranks equals <x, Merge(y)> over the whole tensor.
  const Tensor x = Numbers(QkvShape(), 1);
  double left = 0;
  Tensor merged = ZeroTensor(QkvShape());
  OnEachRank(config(), [&](const RankEnv& env) {
    const QkvLayout layout(env);
    const LocalPiece piece = Layout(env, layout.RowCut()).piece;
    const QueryKeyValue split = layout.Split(PieceOfWhole(x, piece), {});
    QueryKeyValue y;
    y.query = Numbers(split.query.shape(), 10 + env.tp_rank());
    y.key = Numbers(split.key.shape(), 20 + env.tp_rank());
    y.value = Numbers(split.value.shape(), 30 + env.tp_rank());
    const auto add_product = [&](const Tensor& a, const Tensor& b) {
      for (int64_t i = 0; i < a.elements(); ++i) left += a.data<double>()[i] * b.data<double>()[i];
    };
    add_product(split.query, y.query);
    add_product(split.key, y.key);
    add_product(split.value, y.value);
    const Tensor gradient = layout.Merge(y, {});
    PL_CHECK(gradient.shape() == piece.local_shape);
    // Copied columns hold terms of a sum.
    Tensor whole_terms = ZeroTensor(QkvShape());
    PutPiece(gradient, piece, whole_terms);
    AddInto(Context{}, merged, whole_terms);
  });
  double right = 0;
  for (int64_t i = 0; i < x.elements(); ++i) {
    right += x.data<double>()[i] * merged.data<double>()[i];
  }
  EXPECT_NEAR(left, right, 1e-12);
}

TEST_P(QkvLayoutTest, CopiedRowsNameTheRanksThatHoldThem) {
  OnEachRank(config(), [&](const RankEnv& env) {
    const QkvLayout layout(env);
    const auto copied = layout.CopiedRows();
    EXPECT_EQ(copied.has_value(), layout.replicates_rows());
    if (!copied) return;
    EXPECT_EQ(copied->group.size(), layout.replicas());
    EXPECT_GE(copied->group.IndexOf(env.global_rank()), 0);
    EXPECT_EQ(copied->group.hash, HashOfMembers(copied->group.members));
    EXPECT_EQ(copied->first_row, layout.heads() * kHeadSize);
  });
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (int tp : {1, 2, 4, 8}) {
    for (int64_t groups : {1, 2, 4, 8, 16}) {
      for (GqaPolicy policy : {GqaPolicy::kGatherQkv, GqaPolicy::kReplicateKv}) {
        cases.push_back({tp, 16, groups, policy});
      }
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Cases, QkvLayoutTest, testing::ValuesIn(Cases()),
                         [](const auto& info) { return CaseName(info.param); });

TEST(QkvLayout, RefusesWhatDoesNotDivide) {
  RunConfig config = TensorParallelConfig(4, false);
  const auto build = [&] { OnEachRank(config, [](const RankEnv& env) { QkvLayout layout(env); }); };
  config.model.num_attention_heads = 6;
  config.model.num_query_groups = 2;
  EXPECT_THROW(build(), InvalidArgument);
  config.model.num_attention_heads = 12;
  config.model.num_query_groups = 3;
  EXPECT_THROW(build(), InvalidArgument);
}

}  // namespace
}  // namespace plumbline
