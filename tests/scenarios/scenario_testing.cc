#include "tests/scenarios/scenario_testing.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>

#include "base/error.h"

namespace plumbline {
namespace {

// Tests run in the root of the sources.
const std::vector<uint8_t>& LicenceText() {
  static const std::vector<uint8_t> text = [] {
    std::ifstream file("LICENSE", std::ios::binary);
    if (!file) throw IoError("LICENSE cannot be read; tests run in the root of the sources");
    return std::vector<uint8_t>(std::istreambuf_iterator<char>(file), {});
  }();
  return text;
}

NamedModel Base(const std::string& name) {
  NamedModel named;
  named.name = name;
  named.model.num_layers = 2;
  named.model.hidden_size = 32;
  named.model.ffn_hidden_size = 64;
  named.model.num_attention_heads = 8;
  named.model.num_query_groups = 4;
  named.model.kv_channels = 4;
  named.model.vocab_size = 61;
  named.model.padded_vocab_size = 61;
  named.model.seq_length = 16;
  named.model.max_position_embeddings = 20;
  named.model.init_method_std = 0.1;
  named.train.steps = 3;
  named.train.micro_batch_size = 2;
  named.train.lr = 1e-2;
  named.train.loss_mask_keep = 0.7;
  named.train.packed_documents = true;
  return named;
}

NamedModel Gpt() {
  NamedModel named = Base("gpt");
  named.model.hidden_dropout = 0.2;
  named.model.attention_dropout = 0.1;
  named.model.label_smoothing = 0.1;
  named.train.clip_grad = 1e3;  // does not act
  return named;
}

NamedModel Llama() {
  NamedModel named = Base("llama");
  named.model.normalization = Normalization::kRmsNorm;
  named.model.activation = Activation::kSwiglu;
  named.model.add_bias_linear = false;
  named.model.tied_embeddings = false;
  named.model.num_query_groups = 2;
  named.model.position_embedding = PositionEmbedding::kRope;
  named.model.rope_scaling = RopeScaling::kLlama3;
  named.model.rope_scaling_factor = 4;
  named.model.rope_original_max_position = 16;
  named.train.optimizer = OptimizerKind::kSgd;
  named.train.clip_grad = 0;
  named.train.calculate_per_token_loss = true;
  return named;
}

NamedModel Qwen() {
  NamedModel named = Base("qwen");
  named.model.normalization = Normalization::kRmsNorm;
  named.model.activation = Activation::kSwiglu;
  named.model.add_bias_linear = false;
  named.model.add_qkv_bias = true;
  named.model.position_embedding = PositionEmbedding::kRope;
  named.model.rotary_interleaved = true;
  named.model.rotary_percent = 0.5;
  named.model.hidden_dropout = 0.1;
  named.model.vocab_padding = VocabPadding::kMegatron;
  named.train.packed_documents = false;
  named.train.clip_grad = 0.1;
  return named;
}

NamedModel Mqa() {
  NamedModel named = Base("mqa");
  named.model.activation = Activation::kSquaredRelu;
  named.model.num_query_groups = 1;
  named.model.position_embedding = PositionEmbedding::kRope;
  named.model.rope_scaling = RopeScaling::kLinear;
  named.model.rope_scaling_factor = 2;
  named.model.label_smoothing = 0.2;
  named.train.calculate_per_token_loss = true;
  named.train.clip_grad = 0.5;
  return named;
}

// Without positions a key bias has no gradient but rounding, which Adam amplifies.
NamedModel Nope() {
  NamedModel named = Base("nope");
  named.model.activation = Activation::kGeluErf;
  named.model.num_query_groups = 2;
  named.model.position_embedding = PositionEmbedding::kNone;
  named.model.tied_embeddings = false;
  named.model.attention_dropout = 0.2;
  named.train.clip_grad = 1;
  return named;
}

}  // namespace

std::vector<NamedModel> NamedModels() { return {Gpt(), Llama(), Qwen(), Mqa(), Nope()}; }

std::vector<Layout> LayoutsUpTo8() {
  std::vector<Layout> layouts;
  for (const int tp : {1, 2, 4, 8}) {
    for (int dp = 1; tp * dp <= 8; ++dp) {
      layouts.push_back({tp, dp, false});
      if (tp > 1) layouts.push_back({tp, dp, true});
    }
  }
  return layouts;
}

std::string NameOf(const Layout& layout) {
  return fmt::format("tp{}dp{}{}{}", layout.tp, layout.dp, layout.sequence_parallel ? "sp" : "",
                     layout.gqa_policy == GqaPolicy::kReplicateKv ? "kv" : "");
}

Scenario MakeScenario(const NamedModel& model, const Layout& layout, int microbatches) {
  Scenario scenario;
  scenario.config.model = model.model;
  scenario.config.train = model.train;
  scenario.config.train.global_batch_size = model.train.micro_batch_size * microbatches * layout.dp;
  scenario.config.parallel.tp = layout.tp;
  scenario.config.parallel.dp = layout.dp;
  scenario.config.parallel.sequence_parallel = layout.sequence_parallel;
  scenario.config.parallel.gqa_policy = layout.gqa_policy;
  if (model.model.vocab_padding == VocabPadding::kMegatron) {
    scenario.config.model.padded_vocab_size = PaddedVocabSize(model.model.vocab_size, layout.tp);
  }
  scenario.repeat = model.name + "/" + NameOf(layout);
  return scenario;
}

Verdict VerifyText(const Scenario& scenario) {
  const SeededParameters parameters(scenario.config.model, scenario.config.train.seed);
  const TextBatches batches(scenario.config.model, scenario.config.train, LicenceText());
  return Verify(scenario, {parameters, batches});
}

std::string Describe(const Verdict& verdict) {
  std::string text = fmt::format("pass {} completed {}\n", verdict.pass, verdict.completed);
  for (const Finding& finding : verdict.findings) {
    text += fmt::format("{}: {}\n", Name(finding.kind), finding.message);
  }
  text += fmt::format("{} more findings\n", verdict.more_findings);
  for (const ComparedQuantity& quantity : verdict.compared) {
    text += fmt::format("{:18} {:6} tensors {:9} values, worst {:.3e} of {:.1e} at {}\n",
                        quantity.quantity, quantity.tensors, quantity.values, quantity.worst,
                        quantity.bound, ToString(quantity.worst_site));
  }
  return text;
}

}  // namespace plumbline
