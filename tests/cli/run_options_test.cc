#include "cli/run_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <sstream>

#include "base/error.h"

namespace plumbline {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

using Words = std::vector<std::string>;

RunOptions Options(Words words) {
  words.insert(words.begin(), "verify");
  return MakeRunOptions(ParseCommandLine(words));
}

std::string ErrorOf(Words words) {
  try {
    Options(std::move(words));
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(RunOptionsTest, WhatIsNotGivenHidesNoMistakes) {
  const RunConfig config = Options({}).config;
  EXPECT_GT(config.parallel.tp, 1);
  EXPECT_GT(config.parallel.dp, 1);
  EXPECT_NE(config.model.vocab_size % config.parallel.tp, 0);
  EXPECT_LT(config.model.num_query_groups, config.model.num_attention_heads);
  EXPECT_TRUE(config.model.add_bias_linear);
  EXPECT_GT(config.model.hidden_dropout, 0);
  EXPECT_GT(config.model.attention_dropout, 0);
  EXPECT_TRUE(config.train.packed_documents);
  EXPECT_LT(config.train.loss_mask_keep, 1);
  EXPECT_GE(config.train.micro_batch_size, 2);
  EXPECT_EQ(config.num_microbatches(), 3);
  EXPECT_GE(config.train.steps, 3);
  EXPECT_GT(config.train.clip_grad, 0);
}

TEST(RunOptionsTest, TheDefaultsFitEveryMeshOfOneToEight) {
  for (const char* tp : {"1", "2", "4", "8"}) {
    for (const char* dp : {"1", "2", "3", "8"}) {
      EXPECT_EQ(ErrorOf({"--tp", tp, "--dp", dp, "--sp"}), "no error");
      EXPECT_EQ(ErrorOf({"--tp", tp, "--dp", dp, "--swiglu"}), "no error");
    }
  }
}

Words Split(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), std::istream_iterator<std::string>()};
}

TEST(RunOptionsTest, EveryArgumentOfTheModelIsRead) {
  const TransformerConfig model =
      Options(Split("--tp 4 --num-layers 3 --hidden-size 32 --ffn-hidden-size 48 "
                    "--num-attention-heads 8 --group-query-attention --num-query-groups 2 "
                    "--kv-channels 12 --seq-length 24 --vocab-size 100 --swiglu "
                    "--normalization RMSNorm --norm-epsilon 1e-6 --disable-bias-linear "
                    "--add-qkv-bias --untie-embeddings-and-output-weights --init-method-std 0.03 "
                    "--hidden-dropout 0 --attention-dropout 0.2 --label-smoothing 0.1 "
                    "--vocab-padding megatron --position-embedding-type rope "
                    "--max-position-embeddings 40 --rotary-percent 0.5 --rotary-base 5000 "
                    "--rotary-interleaved --use-rope-scaling --rope-scaling-factor 4"))
          .config.model;
  EXPECT_EQ(model.num_layers, 3);
  EXPECT_EQ(model.hidden_size, 32);
  EXPECT_EQ(model.ffn_hidden_size, 48);
  EXPECT_EQ(model.num_attention_heads, 8);
  EXPECT_EQ(model.num_query_groups, 2);
  EXPECT_EQ(model.kv_channels, 12);
  EXPECT_EQ(model.seq_length, 24);
  EXPECT_EQ(model.vocab_size, 100);
  EXPECT_EQ(model.padded_vocab_size, 512);
  EXPECT_EQ(model.activation, Activation::kSwiglu);
  EXPECT_EQ(model.normalization, Normalization::kRmsNorm);
  EXPECT_EQ(model.norm_epsilon, 1e-6);
  EXPECT_FALSE(model.add_bias_linear);
  EXPECT_TRUE(model.add_qkv_bias);
  EXPECT_FALSE(model.tied_embeddings);
  EXPECT_EQ(model.init_method_std, 0.03);
  EXPECT_EQ(model.hidden_dropout, 0);
  EXPECT_EQ(model.attention_dropout, 0.2);
  EXPECT_EQ(model.label_smoothing, 0.1);
  EXPECT_EQ(model.position_embedding, PositionEmbedding::kRope);
  EXPECT_EQ(model.max_position_embeddings, 40);
  EXPECT_EQ(model.rotary_percent, 0.5);
  EXPECT_EQ(model.rotary_base, 5000);
  EXPECT_TRUE(model.rotary_interleaved);
  EXPECT_EQ(model.rope_scaling, RopeScaling::kLlama3);
  EXPECT_EQ(model.rope_scaling_factor, 4);
}

TEST(RunOptionsTest, EveryArgumentOfTheTrainingIsRead) {
  const TrainConfig train =
      Options(Split("--dp 1 --train-iters 5 --micro-batch-size 1 --global-batch-size 4 --seed 7 "
                    "--optimizer sgd --lr 0.1 --weight-decay 0.3 --clip-grad 0 --adam-beta1 0.8 "
                    "--adam-beta2 0.95 --adam-eps 1e-6 --sgd-momentum 0.5 "
                    "--calculate-per-token-loss --loss-mask-keep 0.7 --no-packed-documents"))
          .config.train;
  EXPECT_EQ(train.steps, 5);
  EXPECT_EQ(train.micro_batch_size, 1);
  EXPECT_EQ(train.global_batch_size, 4);
  EXPECT_EQ(train.seed, 7u);
  EXPECT_EQ(train.optimizer, OptimizerKind::kSgd);
  EXPECT_EQ(train.lr, 0.1);
  EXPECT_EQ(train.weight_decay, 0.3);
  EXPECT_EQ(train.clip_grad, 0);
  EXPECT_EQ(train.adam_beta1, 0.8);
  EXPECT_EQ(train.adam_beta2, 0.95);
  EXPECT_EQ(train.adam_eps, 1e-6);
  EXPECT_EQ(train.sgd_momentum, 0.5);
  EXPECT_TRUE(train.calculate_per_token_loss);
  EXPECT_EQ(train.loss_mask_keep, 0.7);
  EXPECT_FALSE(train.packed_documents);
}

TEST(RunOptionsTest, EveryArgumentOfLayoutAndProgramIsRead) {
  const RunOptions options =
      Options(Split("--tp 4 --dp 1 --sp --gqa-policy replicate_kv --order dp-tp-pp-cp-ep "
                    "--dtype f32 --schedule-seed 9 --on-mismatch continue --max-findings 3 "
                    "--data x --json --timings --plant p"));
  EXPECT_EQ(options.config.parallel.tp, 4);
  EXPECT_EQ(options.config.parallel.dp, 1);
  EXPECT_TRUE(options.config.parallel.sequence_parallel);
  EXPECT_EQ(options.config.parallel.gqa_policy, GqaPolicy::kReplicateKv);
  EXPECT_EQ(options.config.parallel.order, "dp-tp-pp-cp-ep");
  EXPECT_EQ(options.config.dtype, DType::kF32);
  EXPECT_TRUE(options.random_schedule);
  EXPECT_EQ(options.schedule_seed, 9u);
  EXPECT_TRUE(options.continue_on_mismatch);
  EXPECT_EQ(options.max_findings, 3);
  EXPECT_EQ(options.data, "x");
  EXPECT_EQ(options.plant, "p");
  EXPECT_TRUE(options.json);
  EXPECT_TRUE(options.timings);
}

TEST(RunOptionsTest, ActivationFollowsMegatronsFusion) {
  EXPECT_EQ(Options({}).config.model.activation, Activation::kGeluTanh);
  EXPECT_EQ(Options({"--no-bias-gelu-fusion"}).config.model.activation, Activation::kGeluErf);
  EXPECT_EQ(Options({"--disable-bias-linear"}).config.model.activation, Activation::kGeluErf);
  EXPECT_EQ(Options({"--squared-relu"}).config.model.activation, Activation::kSquaredRelu);
  EXPECT_THAT(ErrorOf({"--swiglu", "--squared-relu"}), HasSubstr("give one"));
}

TEST(RunOptionsTest, FfnHiddenSizeFollowsMegatronsRule) {
  EXPECT_EQ(Options({"--hidden-size", "96"}).config.model.ffn_hidden_size, 384);
  EXPECT_EQ(Options({"--hidden-size", "96", "--swiglu"}).config.model.ffn_hidden_size, 256);
  EXPECT_EQ(Options({"--hidden-size", "64", "--swiglu"}).config.model.ffn_hidden_size, 128);
  EXPECT_THAT(ErrorOf({"--hidden-size", "16", "--swiglu"}), HasSubstr("give --ffn-hidden-size"));
}

TEST(RunOptionsTest, QueryGroupsFollowMegatron) {
  EXPECT_EQ(Options({"--group-query-attention"}).config.model.num_query_groups, 1);
  EXPECT_EQ(Options({"--num-attention-heads", "4"}).config.model.num_query_groups, 4);
  const RunOptions alone = Options({"--num-query-groups", "2"});
  EXPECT_EQ(alone.config.model.num_query_groups, 8);
  EXPECT_THAT(alone.notes, Contains(HasSubstr("without --group-query-attention")));
}

TEST(RunOptionsTest, RotaryArgumentsWithoutRopeAreNoted) {
  EXPECT_THAT(Options({"--rotary-percent", "0.5"}).notes, Contains(HasSubstr("no effect")));
  EXPECT_THAT(Options({"--rotary-percent", "0.5", "--use-rotary-position-embeddings"}).notes,
              IsEmpty());
  EXPECT_EQ(
      Options({"--position-embedding-type", "rope", "--rotary-seq-len-interpolation-factor", "2"})
          .config.model.rope_scaling,
      RopeScaling::kLinear);
  EXPECT_THAT(ErrorOf({"--position-embedding-type", "mrope"}),
              HasSubstr("expected learned_absolute or rope or none"));
  EXPECT_THAT(ErrorOf({"--no-position-embedding"}), HasSubstr("as in Megatron"));
}

TEST(RunOptionsTest, SequenceParallelismIsSwitchedOffOnOneRank) {
  const RunOptions options = Options({"--tp", "1", "--sp"});
  EXPECT_FALSE(options.config.parallel.sequence_parallel);
  EXPECT_THAT(options.notes, ElementsAre(HasSubstr("switched off")));
}

TEST(RunOptionsTest, TheWorldSizeGivesTheDataParallelSize) {
  EXPECT_EQ(Options({"--tp", "2", "--world-size", "8"}).config.parallel.dp, 4);
  EXPECT_EQ(Options({"torchrun", "--nproc-per-node", "6", "a.py", "--tp", "2"}).config.parallel.dp,
            3);
  EXPECT_EQ(Options({"torchrun", "--nproc-per-node", "6", "a.py", "--tp", "2", "--dp", "1"})
                .config.parallel.dp,
            1);
  EXPECT_THAT(ErrorOf({"--tp", "4", "--world-size", "6"}), HasSubstr("must be a multiple of"));
  EXPECT_THAT(ErrorOf({"--tp", "2", "--dp", "2", "--world-size", "8"}), HasSubstr("is 4"));
}

TEST(RunOptionsTest, BrokenRulesAreNamed) {
  EXPECT_EQ(ErrorOf({"--tp", "3"}),
            "--num-attention-heads 8 must be a multiple of --tensor-model-parallel-size 3");
  EXPECT_THAT(ErrorOf({"--tp", "2", "--num-attention-heads", "12", "--hidden-size", "48",
                       "--group-query-attention", "--num-query-groups", "3"}),
              HasSubstr("--num-query-groups 3"));
  EXPECT_THAT(ErrorOf({"--global-batch-size", "6"}), HasSubstr("--global-batch-size 6"));
  EXPECT_THAT(ErrorOf({"--seq-length", "15", "--sp"}), HasSubstr("--seq-length 15"));
  EXPECT_THAT(ErrorOf({"--order", "tp-dp-dp"}), HasSubstr("order"));
  EXPECT_THAT(ErrorOf({"--vocab-padding", "megatron", "--make-vocab-size-divisible-by", "64"}),
              HasSubstr("only 128"));
  EXPECT_THAT(ErrorOf({"--reset-position-ids"}), HasSubstr("both together"));
  EXPECT_THAT(ErrorOf({"--packed-documents", "--no-packed-documents"}), HasSubstr("contradicts"));
  EXPECT_THAT(ErrorOf({"--policy", "round_robin", "--schedule-seed", "1"}),
              HasSubstr("needs --policy random"));
}

TEST(RunOptionsTest, BadValuesAreNamed) {
  EXPECT_EQ(ErrorOf({"--hidden-size", "abc"}), "--hidden-size 'abc': expected an integer");
  EXPECT_EQ(ErrorOf({"--hidden-size", "1.5"}), "--hidden-size '1.5': expected an integer");
  EXPECT_THAT(ErrorOf({"--hidden-size", "99999999999999999999"}), HasSubstr("64-bit"));
  EXPECT_THAT(ErrorOf({"--hidden-size", "1000000000"}), HasSubstr("must be 1 to"));
  EXPECT_THAT(ErrorOf({"--hidden-size", "0"}), HasSubstr("--hidden-size 0"));
  EXPECT_THAT(ErrorOf({"--num-layers", "-1"}), HasSubstr("--num-layers -1"));
  EXPECT_THAT(ErrorOf({"--tp", "0"}), HasSubstr("must be at least 1"));
  EXPECT_THAT(ErrorOf({"--tp", "99999999999"}), HasSubstr("expected"));
  EXPECT_THAT(ErrorOf({"--micro-batch-size", "9223372036854775807"}), HasSubstr("too large"));
  EXPECT_THAT(ErrorOf({"--lr", "fast"}), HasSubstr("expected a number"));
  EXPECT_THAT(ErrorOf({"--lr", "nan"}), HasSubstr("--lr nan"));
  EXPECT_THAT(ErrorOf({"--seed", "-1"}), HasSubstr("--seed -1"));
  EXPECT_THAT(ErrorOf({"--hidden-dropout", "1"}), HasSubstr("--hidden-dropout 1"));
  EXPECT_THAT(ErrorOf({"--optimizer", "muon"}), HasSubstr("expected adam or sgd"));
  EXPECT_THAT(ErrorOf({"--num-layers", "100000", "--hidden-size", "65536"}), HasSubstr("GiB"));
}

TEST(RunOptionsTest, AllThatIsNotModelledIsRefusedAtOnce) {
  const std::string error = ErrorOf({"--num-experts", "8", "--cp", "4", "--fp8-hybrid",
                                     "--lr-decay-style", "cosine", "--log-interval", "1"});
  EXPECT_THAT(error, HasSubstr("not modelled yet: "));
  EXPECT_THAT(error, HasSubstr("--num-experts 8"));
  EXPECT_THAT(error, HasSubstr("--context-parallel-size 4"));
  EXPECT_THAT(error, HasSubstr("--fp8-hybrid"));
  EXPECT_THAT(error, HasSubstr("--lr-decay-style cosine"));
  EXPECT_THAT(error, Not(HasSubstr("log-interval")));
}

TEST(RunOptionsTest, RefusedArgumentsMayHaveTheirNeutralValue) {
  EXPECT_EQ(ErrorOf({"--pipeline-model-parallel-size", "1", "--context-parallel-size", "1",
                     "--lr-decay-style", "constant", "--lr-warmup-iters", "0",
                     "--weight-decay-incr-style", "constant", "--use-distributed-optimizer=false"}),
            "no error");
}

TEST(RunOptionsTest, PipelinesFollowMegatronsFlags) {
  const auto parallel = [](const std::string& words) {
    return Options(Split(words)).config.parallel;
  };
  EXPECT_EQ(parallel("--pp 4 --virtual 2 --num-layers 16").virtual_stages, 2);
  EXPECT_EQ(
      parallel("--pp 4 --num-layers-per-virtual-pipeline-stage 2 --num-layers 16").virtual_stages,
      2);
  EXPECT_EQ(parallel("--pp 4 --tp 2 --world-size 16").dp, 2);
  EXPECT_EQ(parallel("--pp 2 --schedule zb-h1").schedule, "zb-h1");
  EXPECT_EQ(parallel("--pp 2 --num-layers 5 --decoder-first-pipeline-num-layers 2")
                .decoder_first_pipeline_num_layers,
            2);
  EXPECT_EQ(parallel("--pp 2 --pipeline-model-parallel-layout Et|tL").pipeline_layout, "Et|tL");
  EXPECT_EQ(parallel("--recompute-granularity full").recompute_granularity,
            RecomputeGranularity::kFull);
  // Without a number of layers each chunk has one.
  EXPECT_EQ(Options(Split("--pp 4 --virtual 2")).config.model.num_layers, 8);
  EXPECT_THAT(ErrorOf(Split("--pp 2 --num-layers 3")),
              HasSubstr("--num-layers 3 must be a multiple"));
  EXPECT_THAT(ErrorOf(Split("--virtual 2 --num-layers 4")),
              HasSubstr("--pipeline-model-parallel-size"));
  EXPECT_THAT(ErrorOf(Split("--pp 4 --virtual 2 --global-batch-size 4")),
              HasSubstr("microbatches"));
  EXPECT_THAT(ErrorOf(Split("--dp 1 --pp 4 --virtual 2 --micro-batch-size 1 "
                            "--global-batch-size 6")),
              HasSubstr("modulo --microbatch-group-size-per-virtual-pipeline-stage"));
  EXPECT_THAT(ErrorOf(Split("--pp 2 --schedule interleaved")),
              HasSubstr("--num-virtual-stages-per-pipeline-rank of at least 2"));
  EXPECT_THAT(ErrorOf(Split("--pp 2 --num-layers 4 --pipeline-model-parallel-layout Et|tL")),
              HasSubstr("has 2 layers; --num-layers is 4"));
  EXPECT_THAT(ErrorOf(Split("--recompute-granularity selective")),
              HasSubstr("parts of a layer is not modelled; expected full"));
}

TEST(RunOptionsTest, EveryRefusedArgumentIsRefused) {
  for (const Argument& argument : AllArguments()) {
    if (argument.kind != ArgumentClass::kRefused) continue;
    Words words = {"--" + argument.name};
    if (argument.arity != Arity::kNone) words.push_back("17");
    EXPECT_THAT(ErrorOf(words), HasSubstr("not modelled yet: --" + argument.name)) << argument.name;
  }
}

TEST(RunOptionsTest, EveryIgnoredArgumentIsListedAndChangesNothing) {
  const RunOptions plain = Options({});
  for (const Argument& argument : AllArguments()) {
    if (argument.kind != ArgumentClass::kIgnored) continue;
    Words words = {"--" + argument.name};
    if (argument.arity != Arity::kNone) words.push_back("17");
    const RunOptions options = Options(words);
    EXPECT_THAT(options.ignored, ElementsAre(argument.name));
    EXPECT_EQ(options.repeat, plain.repeat);
  }
}

TEST(RunOptionsTest, SettingsSayWhatWasGiven) {
  const RunOptions options = Options({"--tp", "4", "--world-size", "4"});
  for (const Setting& setting : options.settings) {
    const bool given =
        setting.name == "tensor-model-parallel-size" || setting.name == "data-parallel-size";
    EXPECT_EQ(setting.given, given) << setting.name;
    EXPECT_NE(FindArgument(setting.name), nullptr) << setting.name;
  }
}

TEST(RunOptionsTest, TheRepeatLineGivesTheSameRun) {
  const RunOptions options = Options({"--tp", "4", "--world-size", "8", "--sp", "--data", "a file",
                                      "--swiglu", "--json", "--save", "x", "--lr", "3e-4"});
  EXPECT_EQ(options.repeat,
            "plumbline verify --tp 4 --dp 2 --sp --data 'a file' --swiglu --lr 3e-4 --seed 1234");
  const RunOptions again = Options({"--tp", "4", "--dp", "2", "--sp", "--data", "a file",
                                    "--swiglu", "--lr", "3e-4", "--seed", "1234"});
  EXPECT_EQ(again.repeat, options.repeat);
  ASSERT_EQ(again.settings.size(), options.settings.size());
  for (size_t i = 0; i < again.settings.size(); ++i) {
    EXPECT_EQ(again.settings[i].value, options.settings[i].value) << again.settings[i].name;
  }
}

TEST(RunOptionsTest, ShellQuoteKeepsWords) {
  EXPECT_EQ(ShellQuote("a/b-1.x"), "a/b-1.x");
  EXPECT_EQ(ShellQuote(""), "''");
  EXPECT_EQ(ShellQuote("it's $x"), "'it'\\''s $x'");
}

TEST(RunOptionsTest, LayoutAllowsEveryAxis) {
  const RunConfig config = MakeLayoutConfig(
      ParseCommandLine({"layout", "--tp", "2", "--pp", "2", "--dp", "2", "--order", "tp-pp-dp"}));
  EXPECT_EQ(config.parallel.world_size(), 8);
  EXPECT_EQ(config.parallel.order, "tp-pp-dp");
  EXPECT_THROW(MakeLayoutConfig(ParseCommandLine({"layout", "--fp8-hybrid"})), InvalidArgument);
  EXPECT_THROW(MakeLayoutConfig(ParseCommandLine({"layout", "--pp", "0"})), InvalidArgument);
}

}  // namespace
}  // namespace plumbline
