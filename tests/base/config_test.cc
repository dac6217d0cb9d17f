#include "base/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"

namespace plumbline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

TEST(ValidateTest, DefaultsAreValidOnEveryLayoutThatDividesThem) {
  for (int tp : {1, 2, 4}) {
    for (int dp : {1, 2}) {
      for (bool sp : {false, true}) {
        for (GqaPolicy policy : {GqaPolicy::kGatherQkv, GqaPolicy::kReplicateKv}) {
          for (int64_t groups : {1, 2, 4}) {
            RunConfig config;
            config.parallel.tp = tp;
            config.parallel.dp = dp;
            config.parallel.sequence_parallel = sp && tp > 1;
            config.parallel.gqa_policy = policy;
            config.model.num_query_groups = groups;
            EXPECT_NO_THROW(Validate(config)) << tp << " " << dp << " " << groups;
          }
        }
      }
    }
  }
}

struct Broken {
  std::string name;
  std::function<void(RunConfig&)> change;
  // Every one is in the message: flags and values.
  std::vector<std::string> words;
};

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

const std::vector<Broken> kBroken = {
    {"heads_by_tp",
     [](RunConfig& c) { c.parallel.tp = 3; },
     {"--num-attention-heads 4", "--tensor-model-parallel-size 3"}},
    {"heads_by_groups",
     [](RunConfig& c) { c.model.num_query_groups = 3; },
     {"--num-attention-heads 4", "--num-query-groups 3"}},
    {"groups_against_tp",
     [](RunConfig& c) {
       c.model.num_attention_heads = 12;
       c.model.num_query_groups = 6;
       c.parallel.tp = 4;
     },
     {"--num-query-groups 6", "--tensor-model-parallel-size 4"}},
    {"qkv_rows_by_tp",
     [](RunConfig& c) {
       c.model.num_attention_heads = 16;
       c.model.num_query_groups = 1;
       c.model.kv_channels = 2;
       c.parallel.tp = 8;
     },
     {"--num-query-groups 1", "--tensor-model-parallel-size 8", "36 rows", "replicate_kv"}},
    {"ffn_by_tp",
     [](RunConfig& c) {
       c.model.ffn_hidden_size = 30;
       c.parallel.tp = 4;
     },
     {"--ffn-hidden-size 30", "--tensor-model-parallel-size 4"}},
    {"batch_by_microbatch",
     [](RunConfig& c) { c.train.micro_batch_size = 3; },
     {"--global-batch-size 4", "--micro-batch-size 3"}},
    {"batch_by_data_parallel",
     [](RunConfig& c) { c.parallel.dp = 4; },
     {"--global-batch-size 4", "--micro-batch-size 2", "data-parallel size 4"}},
    {"sequence_by_tp",
     [](RunConfig& c) {
       c.parallel.tp = 4;
       c.parallel.sequence_parallel = true;
       c.model.seq_length = 14;
     },
     {"--seq-length 14", "--tensor-model-parallel-size 4"}},
    {"sequence_parallel_alone",
     [](RunConfig& c) { c.parallel.sequence_parallel = true; },
     {"--sequence-parallel", "--tensor-model-parallel-size", "1"}},
    {"sequence_beyond_positions",
     [](RunConfig& c) { c.model.seq_length = 17; },
     {"--seq-length 17", "--max-position-embeddings 16"}},
    {"odd_rotary_channels",
     [](RunConfig& c) {
       c.model.position_embedding = PositionEmbedding::kRope;
       c.model.rotary_percent = 0.4;
     },
     {"--rotary-percent 0.4", "--kv-channels 8", "3 rotary channels"}},
    {"no_rotary_channels",
     [](RunConfig& c) {
       c.model.position_embedding = PositionEmbedding::kRope;
       c.model.rotary_percent = 0.1;
     },
     {"0 rotary channels"}},
    {"rotary_percent",
     [](RunConfig& c) {
       c.model.position_embedding = PositionEmbedding::kRope;
       c.model.rotary_percent = 1.5;
     },
     {"--rotary-percent 1.5"}},
    {"rope_factors",
     [](RunConfig& c) {
       c.model.position_embedding = PositionEmbedding::kRope;
       c.model.rope_scaling = RopeScaling::kLlama3;
       c.model.rope_low_freq_factor = 4;
     },
     {"--rope-low-freq-factor 4", "--rope-high-freq-factor 4"}},
    {"no_layers", [](RunConfig& c) { c.model.num_layers = 0; }, {"--num-layers 0", "at least 1"}},
    {"negative_hidden", [](RunConfig& c) { c.model.hidden_size = -8; }, {"--hidden-size -8"}},
    {"no_groups", [](RunConfig& c) { c.model.num_query_groups = 0; }, {"--num-query-groups 0"}},
    {"no_channels", [](RunConfig& c) { c.model.kv_channels = 0; }, {"--kv-channels 0"}},
    {"no_sequence", [](RunConfig& c) { c.model.seq_length = 0; }, {"--seq-length 0"}},
    {"one_word", [](RunConfig& c) { c.model.vocab_size = 1; }, {"--vocab-size 1", "at least 2"}},
    {"no_steps", [](RunConfig& c) { c.train.steps = 0; }, {"--train-iters 0"}},
    {"no_microbatch", [](RunConfig& c) { c.train.micro_batch_size = 0; }, {"--micro-batch-size 0"}},
    {"no_batch", [](RunConfig& c) { c.train.global_batch_size = 0; }, {"--global-batch-size 0"}},
    {"no_tp", [](RunConfig& c) { c.parallel.tp = 0; }, {"--tensor-model-parallel-size 0"}},
    {"negative_dp", [](RunConfig& c) { c.parallel.dp = -1; }, {"--data-parallel-size -1"}},
    {"dropout_of_all",
     [](RunConfig& c) { c.model.hidden_dropout = 1; },
     {"--hidden-dropout 1", "[0, 1)"}},
    {"dropout_not_a_number",
     [](RunConfig& c) { c.model.attention_dropout = kNaN; },
     {"--attention-dropout nan"}},
    {"label_smoothing",
     [](RunConfig& c) { c.model.label_smoothing = -0.1; },
     {"--label-smoothing -0.1"}},
    {"learning_rate", [](RunConfig& c) { c.train.lr = kNaN; }, {"--lr nan"}},
    {"weight_decay", [](RunConfig& c) { c.train.weight_decay = INFINITY; }, {"--weight-decay inf"}},
    {"clip_grad", [](RunConfig& c) { c.train.clip_grad = -1; }, {"--clip-grad -1"}},
    {"adam_beta", [](RunConfig& c) { c.train.adam_beta2 = 1; }, {"--adam-beta2 1"}},
    {"adam_eps", [](RunConfig& c) { c.train.adam_eps = 0; }, {"--adam-eps 0"}},
    {"sgd_momentum",
     [](RunConfig& c) {
       c.train.optimizer = OptimizerKind::kSgd;
       c.train.sgd_momentum = 1;
     },
     {"--sgd-momentum 1"}},
    {"norm_epsilon", [](RunConfig& c) { c.model.norm_epsilon = 0; }, {"--norm-epsilon 0"}},
    {"init_std",
     [](RunConfig& c) { c.model.init_method_std = -0.02; },
     {"--init-method-std -0.02"}},
    {"loss_mask", [](RunConfig& c) { c.train.loss_mask_keep = 0; }, {"--loss-mask-keep 0"}},
    {"padded_rows",
     [](RunConfig& c) { c.model.padded_vocab_size = 256; },
     {"256", "--vocab-size 251", "makes 251"}},
    {"padded_rows_of_megatron",
     [](RunConfig& c) {
       c.model.vocab_padding = VocabPadding::kMegatron;
       c.parallel.tp = 4;
     },
     {"makes 512"}},
    {"storage_dtype", [](RunConfig& c) { c.dtype = DType::kI64; }, {"--dtype i64"}},
    {"world", [](RunConfig& c) { c.parallel.dp = c.parallel.pp = 1024; }, {"65536"}},
    {"world_overflow",
     [](RunConfig& c) { c.parallel.tp = c.parallel.cp = c.parallel.dp = c.parallel.pp = 65536; },
     {"65536"}},
    {"absurd_hidden",
     [](RunConfig& c) { c.model.hidden_size = int64_t{1} << 40; },
     {"--hidden-size 1099511627776", "at most"}},
    {"too_many_parameters",
     [](RunConfig& c) {
       c.model.hidden_size = 1 << 16;
       c.model.ffn_hidden_size = 1 << 18;
     },
     {"GiB", "--hidden-size"}},
    {"too_long",
     [](RunConfig& c) { c.model.seq_length = c.model.max_position_embeddings = 1 << 19; },
     {"GiB", "--seq-length"}},
    {"too_many_replicas",
     [](RunConfig& c) {
       c.parallel.dp = 32768;
       c.train.global_batch_size = 65536;
     },
     {"GiB", "32768 data-parallel replicas"}},
};

class ValidateBrokenTest : public ::testing::TestWithParam<Broken> {};

TEST_P(ValidateBrokenTest, RuleIsNamedInOneLineWithFlagsAndValues) {
  RunConfig config;
  Validate(config);
  GetParam().change(config);
  for (const std::string& word : GetParam().words) {
    EXPECT_THAT([&] { Validate(config); },
                ThrowsMessage<InvalidArgument>(AllOf(HasSubstr(word), Not(HasSubstr("\n")))));
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, ValidateBrokenTest, ::testing::ValuesIn(kBroken),
                         [](const auto& info) { return info.param.name; });

// What a rule does not forbid.
TEST(ValidateTest, NeighboursOfTheRulesAreAllowed) {
  const auto allowed = [](const std::function<void(RunConfig&)>& change) {
    RunConfig config;
    change(config);
    EXPECT_NO_THROW(Validate(config));
  };
  allowed([](RunConfig& c) {
    c.model.position_embedding = PositionEmbedding::kRope;
    c.model.seq_length = 4096;  // positions are not learned
  });
  allowed([](RunConfig& c) {
    c.model.position_embedding = PositionEmbedding::kRope;
    c.model.rotary_percent = 0.25;
  });
  allowed([](RunConfig& c) {
    c.model.seq_length = 15;  // tp divides it under sequence parallelism only
    c.parallel.tp = 4;
  });
  allowed([](RunConfig& c) {
    c.train.clip_grad = 0;
    c.train.weight_decay = 0;
    c.train.lr = 0;
  });
  allowed([](RunConfig& c) {
    c.model.vocab_padding = VocabPadding::kMegatron;
    c.parallel.tp = 4;
    c.model.padded_vocab_size = 512;
  });
  allowed([](RunConfig& c) {
    c.model.kv_channels = 5;  // hidden need not be heads times channels
    c.model.hidden_size = 7;
  });
  allowed([](RunConfig& c) {
    c.model.num_attention_heads = 8;
    c.model.num_query_groups = 2;
    c.parallel.tp = 8;
  });
}

TEST(PaddedVocabSizeTest, IsTheNextMultipleOf128TimesTp) {
  EXPECT_EQ(PaddedVocabSize(1, 1), 128);
  EXPECT_EQ(PaddedVocabSize(128, 1), 128);
  EXPECT_EQ(PaddedVocabSize(129, 1), 256);
  EXPECT_EQ(PaddedVocabSize(251, 4), 512);
  EXPECT_EQ(PaddedVocabSize(50257, 8), 51200);
}

TEST(ConfigTest, DerivedSizes) {
  TransformerConfig model;
  model.num_attention_heads = 6;
  model.num_query_groups = 2;
  model.kv_channels = 8;
  model.ffn_hidden_size = 20;
  EXPECT_EQ(model.heads_per_group(), 3);
  EXPECT_EQ(model.query_size(), 48);
  EXPECT_EQ(model.qkv_size(), 80);
  EXPECT_EQ(model.fc1_size(), 20);
  model.activation = Activation::kSwiglu;
  EXPECT_EQ(model.fc1_size(), 40);
  model.rotary_percent = 0.5;
  EXPECT_EQ(model.rotary_channels(), 4);
  RunConfig config;
  config.train.global_batch_size = 24;
  config.parallel.dp = 3;
  EXPECT_EQ(config.train.global_microbatches(), 12);
  EXPECT_EQ(config.num_microbatches(), 4);
  config.parallel.tp = 2;
  EXPECT_EQ(config.parallel.world_size(), 6);
  EXPECT_EQ(config.parallel.expert_tp(), 2);
  config.parallel.etp = 1;
  EXPECT_EQ(config.parallel.expert_tp(), 1);
}

TEST(ConfigTest, NamesAreDistinctAndOthersRefused) {
  const auto expect_distinct = []<class E>(E last) {
    std::set<std::string> names;
    for (int i = 0; i <= static_cast<int>(last); ++i) {
      names.insert(std::string(Name(static_cast<E>(i))));
    }
    EXPECT_EQ(names.size(), static_cast<size_t>(last) + 1);
    EXPECT_EQ(names.count(""), 0u);
    EXPECT_THROW(Name(static_cast<E>(99)), Internal);
  };
  expect_distinct(Normalization::kRmsNorm);
  expect_distinct(Activation::kSwiglu);
  expect_distinct(PositionEmbedding::kRope);
  expect_distinct(RopeScaling::kLlama3);
  expect_distinct(VocabPadding::kMegatron);
  expect_distinct(GqaPolicy::kReplicateKv);
  expect_distinct(OptimizerKind::kSgd);
}

}  // namespace
}  // namespace plumbline
