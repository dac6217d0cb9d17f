#include "cli/model_options.h"

#include <fmt/format.h>

#include "base/error.h"

namespace plumbline {
namespace {

// Sizes beyond this are refused before anything is derived from them, so that no product overflows.
constexpr int64_t kMostSize = int64_t{1} << 20;

void ReadSize(const GivenArguments& given, const std::string& name, int64_t* target) {
  const std::optional<int64_t> value = given.Integer(name);
  if (!value.has_value()) return;
  if (*value < 1 || *value > kMostSize) {
    throw InvalidArgument("{} {}: must be 1 to {}", given.Label(name), *value, kMostSize);
  }
  *target = *value;
}

// Heads, groups and their channels. Megatron looks at --num-query-groups only with
// --group-query-attention.
void ReadAttention(const GivenArguments& given, TransformerConfig* model,
                   std::vector<std::string>* notes) {
  ReadSize(given, "num-attention-heads", &model->num_attention_heads);
  if (given.Flag("group-query-attention")) {
    model->num_query_groups = 1;
    ReadSize(given, "num-query-groups", &model->num_query_groups);
  } else if (given.Has("num-query-groups")) {
    int64_t groups = 0;
    ReadSize(given, "num-query-groups", &groups);
    model->num_query_groups = model->num_attention_heads;
    notes->push_back(
        fmt::format("--num-query-groups {} has no effect without --group-query-attention, as in "
                    "Megatron: {} groups",
                    groups, model->num_attention_heads));
  } else if (given.Has("num-attention-heads")) {
    model->num_query_groups = model->num_attention_heads;
  }
  if (given.Has("kv-channels")) {
    ReadSize(given, "kv-channels", &model->kv_channels);
    return;
  }
  if (model->hidden_size % model->num_attention_heads != 0) {
    throw InvalidArgument(
        "--hidden-size {} must be a multiple of --num-attention-heads {}, or give --kv-channels",
        model->hidden_size, model->num_attention_heads);
  }
  model->kv_channels = model->hidden_size / model->num_attention_heads;
}

void ReadMlp(const GivenArguments& given, TransformerConfig* model) {
  model->add_bias_linear = !given.Flag("disable-bias-linear");
  model->add_qkv_bias = given.Flag("add-qkv-bias");
  const bool swiglu = given.Flag("swiglu");
  if (swiglu && given.Flag("squared-relu")) {
    throw InvalidArgument("--swiglu and --squared-relu: give one");
  }
  if (swiglu) {
    model->activation = Activation::kSwiglu;
  } else if (given.Flag("squared-relu")) {
    model->activation = Activation::kSquaredRelu;
  } else {
    // Megatron's fused bias and GELU kernel computes the tanh form; it needs a bias.
    const bool fused = model->add_bias_linear && !given.Flag("no-bias-gelu-fusion");
    model->activation = fused ? Activation::kGeluTanh : Activation::kGeluErf;
  }
  if (given.Has("ffn-hidden-size")) {
    ReadSize(given, "ffn-hidden-size", &model->ffn_hidden_size);
    return;
  }
  // With SwiGLU, 8/3 of the hidden size in whole 64s keeps the parameter count of an ungated MLP.
  model->ffn_hidden_size = swiglu ? 8 * model->hidden_size / 3 / 64 * 64 : 4 * model->hidden_size;
  if (model->ffn_hidden_size == 0) {
    throw InvalidArgument(
        "--hidden-size {} with --swiglu makes an --ffn-hidden-size of 0; give --ffn-hidden-size",
        model->hidden_size);
  }
}

void ReadRopeScaling(const GivenArguments& given, TransformerConfig* model) {
  const bool linear = given.Has("rotary-seq-len-interpolation-factor");
  if (linear && given.Flag("use-rope-scaling")) {
    throw InvalidArgument("--rotary-seq-len-interpolation-factor and --use-rope-scaling: give one");
  }
  if (linear) {
    model->rope_scaling = RopeScaling::kLinear;
    given.ReadNumber("rotary-seq-len-interpolation-factor", &model->rope_scaling_factor);
  } else if (given.Flag("use-rope-scaling")) {
    model->rope_scaling = RopeScaling::kLlama3;
    model->rope_scaling_factor = 8.0;
    given.ReadNumber("rope-scaling-factor", &model->rope_scaling_factor);
  }
}

void ReadPositions(const GivenArguments& given, TransformerConfig* model,
                   std::vector<std::string>* notes) {
  ReadSize(given, "seq-length", &model->seq_length);
  model->max_position_embeddings = model->seq_length;
  ReadSize(given, "max-position-embeddings", &model->max_position_embeddings);
  using Kind = PositionEmbedding;
  const auto kind = given.Choice<Kind>(
      "position-embedding-type",
      {{"learned_absolute", Kind::kLearnedAbsolute}, {"rope", Kind::kRope}, {"none", Kind::kNone}});
  model->position_embedding = kind.value_or(model->position_embedding);
  if (given.Flag("use-rotary-position-embeddings")) model->position_embedding = Kind::kRope;
  const bool rope = model->position_embedding == Kind::kRope;
  if (given.Flag("no-position-embedding") && !rope) {
    throw InvalidArgument(
        "--no-position-embedding needs --position-embedding-type rope, as in Megatron; for no "
        "positions give --position-embedding-type none");
  }
  given.ReadNumber("rotary-percent", &model->rotary_percent);
  given.ReadNumber("rotary-base", &model->rotary_base);
  model->rotary_interleaved = given.Flag("rotary-interleaved");
  ReadRopeScaling(given, model);
  if (!given.Flag("use-rope-scaling") && given.Has("rope-scaling-factor")) {
    notes->push_back("--rope-scaling-factor has no effect without --use-rope-scaling");
  }
  if (rope) return;
  for (const char* name : {"rotary-percent", "rotary-base", "rotary-interleaved",
                           "rotary-seq-len-interpolation-factor", "use-rope-scaling"}) {
    if (given.Has(name)) {
      notes->push_back(
          fmt::format("--{} has no effect without --position-embedding-type rope", name));
    }
  }
}

void ReadVocabulary(const GivenArguments& given, int tp, TransformerConfig* model) {
  ReadSize(given, "vocab-size", &model->vocab_size);
  given.ReadNumber("label-smoothing", &model->label_smoothing);
  const auto padding = given.Choice<VocabPadding>(
      "vocab-padding", {{"masked", VocabPadding::kMasked}, {"megatron", VocabPadding::kMegatron}});
  model->vocab_padding = padding.value_or(model->vocab_padding);
  const bool padded = model->vocab_padding == VocabPadding::kMegatron;
  int64_t divisor = 128;
  ReadSize(given, "make-vocab-size-divisible-by", &divisor);
  if (padded && divisor != 128) {
    throw InvalidArgument("{} {}: only 128 is modelled with --vocab-padding megatron",
                          given.Label("make-vocab-size-divisible-by"), divisor);
  }
  model->padded_vocab_size = padded ? PaddedVocabSize(model->vocab_size, tp) : model->vocab_size;
}

}  // namespace

void ReadModel(const GivenArguments& given, int tp, TransformerConfig* model,
               std::vector<std::string>* notes) {
  ReadSize(given, "num-layers", &model->num_layers);
  ReadSize(given, "hidden-size", &model->hidden_size);
  ReadAttention(given, model, notes);
  ReadMlp(given, model);
  ReadPositions(given, model, notes);
  ReadVocabulary(given, tp, model);
  const auto normalization = given.Choice<Normalization>(
      "normalization",
      {{"LayerNorm", Normalization::kLayerNorm}, {"RMSNorm", Normalization::kRmsNorm}});
  model->normalization = normalization.value_or(model->normalization);
  given.ReadNumber("norm-epsilon", &model->norm_epsilon);
  model->tied_embeddings = !given.Flag("untie-embeddings-and-output-weights");
  given.ReadNumber("init-method-std", &model->init_method_std);
  given.ReadNumber("hidden-dropout", &model->hidden_dropout);
  given.ReadNumber("attention-dropout", &model->attention_dropout);
}

}  // namespace plumbline
