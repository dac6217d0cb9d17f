#include "oracle/golden.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/batch.h"
#include "base/compare.h"
#include "base/config.h"
#include "base/error.h"
#include "base/init.h"
#include "base/probe.h"
#include "base/safetensors.h"
#include "oracle/reference.h"

namespace plumbline {
namespace {

using Json = nlohmann::json;

// One object of the configuration. Every key must be read, so that nothing that the oracle does not
// know of passes unnoticed.
class JsonReader {
 public:
  JsonReader(const std::string& path, const Json& object, std::string prefix)
      : path_(path), object_(object), prefix_(std::move(prefix)) {
    if (!object_.is_object()) throw Wrong("", "an object");
  }

  int64_t Count(const std::string& key) {
    const Json* value = Find(key);
    constexpr int64_t kMost = 1 << 20;
    if (value == nullptr || !value->is_number_integer() || value->get<double>() < 1 ||
        value->get<double>() > static_cast<double>(kMost)) {
      throw Wrong(key, "an integer from 1 to 2^20");
    }
    return value->get<int64_t>();
  }
  double Number(const std::string& key) {
    const Json* value = Find(key);
    if (value == nullptr || !value->is_number()) throw Wrong(key, "a number");
    return value->get<double>();
  }
  double Number(const std::string& key, double otherwise) {
    return object_.contains(key) ? Number(key) : otherwise;
  }
  bool Flag(const std::string& key, bool otherwise) {
    const Json* value = Find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_boolean()) throw Wrong(key, "true or false");
    return value->get<bool>();
  }
  template <class E>
  E Choice(const std::string& key, const std::vector<std::pair<std::string, E>>& choices) {
    const Json* value = Find(key);
    std::string expected = "one of";
    for (const auto& [name, choice] : choices) {
      if (value != nullptr && *value == name) return choice;
      expected += " " + name;
    }
    throw Wrong(key, expected);
  }
  bool Has(const std::string& key) const { return object_.contains(key); }
  JsonReader Object(const std::string& key) {
    const Json* value = Find(key);
    if (value == nullptr || !value->is_object()) throw Wrong(key, "an object");
    return JsonReader(path_, *value, prefix_ + key + ".");
  }
  // Keys that describe how the file was made and change nothing here.
  void Ignore(const std::string& key) { read_.insert(key); }

  void CheckAllRead() const {
    for (const auto& [key, value] : object_.items()) {
      if (!read_.contains(key)) {
        throw InvalidArgument("{}: config key {}{} is not supported", path_, prefix_, key);
      }
    }
  }

 private:
  const Json* Find(const std::string& key) {
    read_.insert(key);
    const auto found = object_.find(key);
    return found == object_.end() ? nullptr : &*found;
  }
  InvalidArgument Wrong(const std::string& key, const std::string& expected) const {
    const auto found = object_.is_object() ? object_.find(key) : object_.end();
    const std::string value = found == object_.end() ? "missing" : found->dump();
    return InvalidArgument("{}: config key {}{} is {}, expected {}", path_, prefix_, key,
                           value.substr(0, 60), expected);
  }

  const std::string& path_;
  const Json& object_;
  std::string prefix_;
  std::set<std::string> read_;
};

void ReadPositions(JsonReader& json, TransformerConfig& model) {
  model.position_embedding = json.Choice<PositionEmbedding>(
      "position_embedding_type", {{"learned_absolute", PositionEmbedding::kLearnedAbsolute},
                                  {"rope", PositionEmbedding::kRope},
                                  {"none", PositionEmbedding::kNone}});
  model.rotary_base = json.Number("rotary_base", model.rotary_base);
  model.rotary_percent = json.Number("rotary_percent", model.rotary_percent);
  model.rotary_interleaved = json.Flag("rotary_interleaved", false);
  if (!json.Has("rope_scaling")) return;
  JsonReader scaling = json.Object("rope_scaling");
  model.rope_scaling = scaling.Choice<RopeScaling>(
      "type", {{"linear", RopeScaling::kLinear}, {"llama3", RopeScaling::kLlama3}});
  model.rope_scaling_factor = scaling.Number("factor");
  if (model.rope_scaling == RopeScaling::kLlama3) {
    model.rope_low_freq_factor = scaling.Number("low_freq_factor");
    model.rope_high_freq_factor = scaling.Number("high_freq_factor");
    model.rope_original_max_position = scaling.Count("original_max_position_embeddings");
  }
  scaling.CheckAllRead();
}

TransformerConfig ReadModel(JsonReader& json) {
  TransformerConfig model;
  model.num_layers = json.Count("num_layers");
  model.hidden_size = json.Count("hidden_size");
  model.ffn_hidden_size = json.Count("ffn_hidden_size");
  model.num_attention_heads = json.Count("num_attention_heads");
  model.num_query_groups = json.Count("num_query_groups");
  model.kv_channels = json.Count("head_dim");
  model.vocab_size = json.Count("vocab_size");
  model.padded_vocab_size = model.vocab_size;
  model.seq_length = json.Count("seq");
  model.max_position_embeddings = json.Count("max_position_embeddings");
  model.normalization = json.Choice<Normalization>(
      "normalization",
      {{"LayerNorm", Normalization::kLayerNorm}, {"RMSNorm", Normalization::kRmsNorm}});
  model.activation =
      json.Choice<Activation>("activation", {{"gelu_tanh", Activation::kGeluTanh},
                                             {"gelu", Activation::kGeluErf},
                                             {"squared_relu", Activation::kSquaredRelu},
                                             {"swiglu", Activation::kSwiglu}});
  model.add_bias_linear = json.Flag("add_bias_linear", true);
  model.add_qkv_bias = json.Flag("add_qkv_bias", false);
  model.tied_embeddings = json.Flag("tied", true);
  ReadPositions(json, model);
  return model;
}

TrainConfig ReadTrain(JsonReader& json) {
  TrainConfig train;
  train.micro_batch_size = json.Count("batch");
  train.global_batch_size = train.micro_batch_size * json.Count("num_microbatches");
  train.calculate_per_token_loss = json.Flag("calculate_per_token_loss", false);
  train.packed_documents = json.Flag("packed", false);
  json.Ignore("seed");
  json.Ignore("mask_keep");
  JsonReader optimizer = json.Object("train");
  train.steps = optimizer.Count("steps");
  train.lr = optimizer.Number("lr");
  train.weight_decay = optimizer.Number("weight_decay");
  train.clip_grad = optimizer.Number("clip_grad");
  train.adam_beta1 = optimizer.Number("adam_beta1");
  train.adam_beta2 = optimizer.Number("adam_beta2");
  train.adam_eps = optimizer.Number("adam_eps");
  optimizer.CheckAllRead();
  return train;
}

struct GoldenConfig {
  TransformerConfig model;
  TrainConfig train;
};

GoldenConfig ReadConfig(const SafetensorsFile& file) {
  const auto text = file.metadata().find("config");
  if (text == file.metadata().end()) {
    throw InvalidArgument("{}: metadata key config is missing, expected JSON", file.path());
  }
  const Json parsed = Json::parse(text->second, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded()) {
    throw InvalidArgument("{}: metadata key config is not JSON", file.path());
  }
  JsonReader json(file.path(), parsed, "");
  GoldenConfig config;
  config.model = ReadModel(json);
  config.train = ReadTrain(json);
  json.CheckAllRead();
  RunConfig run;
  run.model = config.model;
  run.train = config.train;
  try {
    Validate(run);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument("{}: metadata key config: {}", file.path(), error.what());
  }
  return config;
}

Tensor LoadChecked(const SafetensorsFile& file, const std::string& name, DType dtype,
                   const Shape& shape) {
  const SafetensorsFile::Entry& entry = file.EntryOf(name);
  if (entry.dtype != dtype || entry.shape != shape) {
    throw InvalidArgument("{}: tensor {} is {} {}, expected {} {}", file.path(), name,
                          Name(entry.dtype), ToString(entry.shape), Name(dtype), ToString(shape));
  }
  return file.Load(Context{}, name);
}

class GoldenBatches : public BatchSource {
 public:
  GoldenBatches(const SafetensorsFile& file, const GoldenConfig& config) : train_(config.train) {
    const Shape labels = {train_.steps, train_.global_microbatches(), train_.micro_batch_size,
                          config.model.seq_length};
    Shape tokens = labels;
    tokens.back() += 1;
    tokens_ = LoadChecked(file, "tokens", DType::kI64, tokens);
    loss_mask_ = LoadChecked(file, "loss_mask", DType::kF64, labels);
    if (train_.packed_documents) {
      document_ids_ = LoadChecked(file, "document_ids", DType::kI64, labels);
    } else {
      document_ids_ = Tensor::Zeros(Context{}, DType::kI64, labels);
    }
  }

  Batch Get(const Context& context, int64_t step, int64_t microbatch) const override {
    const auto part = [&](const Tensor& all) {
      return all.Select(0, step - 1).Select(0, microbatch);
    };
    Batch batch;
    const Tensor tokens = part(tokens_);
    batch.tokens = tokens.Slice(1, 0, tokens.dim(1) - 1).Contiguous(context);
    batch.labels = tokens.Slice(1, 1, tokens.dim(1)).Contiguous(context);
    batch.loss_mask = part(loss_mask_).Contiguous(context);
    batch.document_ids = part(document_ids_).Contiguous(context);
    batch.position_ids = PositionsIn(context, batch.document_ids);
    for (int64_t b = 0; b < train_.micro_batch_size; ++b) {
      batch.samples.push_back((step - 1) * train_.global_batch_size +
                              microbatch * train_.micro_batch_size + b);
    }
    return batch;
  }

 private:
  // Positions restart at each document.
  static Tensor PositionsIn(const Context& context, const Tensor& document_ids) {
    Tensor positions = Tensor::Zeros(context, DType::kI64, document_ids.shape());
    for (int64_t b = 0; b < document_ids.dim(0); ++b) {
      for (int64_t s = 1; s < document_ids.dim(1); ++s) {
        const bool same = document_ids.at<int64_t>({b, s}) == document_ids.at<int64_t>({b, s - 1});
        positions.at<int64_t>({b, s}) = same ? positions.at<int64_t>({b, s - 1}) + 1 : 0;
      }
    }
    return positions;
  }

  TrainConfig train_;
  Tensor tokens_;
  Tensor loss_mask_;
  Tensor document_ids_;
};

GivenParameters GoldenParameters(const SafetensorsFile& file) {
  constexpr std::string_view kPrefix = "init/";
  std::map<std::string, Tensor> tensors;
  for (const auto& [name, entry] : file.entries()) {
    if (!std::string_view(name).starts_with(kPrefix)) continue;
    tensors.emplace(name.substr(kPrefix.size()), LoadChecked(file, name, DType::kF64, entry.shape));
  }
  return GivenParameters(std::move(tensors));
}

// Compares what the file holds as the oracle produces it.
class GoldenSink : public ReferenceSink {
 public:
  GoldenSink(const SafetensorsFile& file, const GoldenConfig& config)
      : file_(file), config_(config) {
    for (const char* name : {"embedding", "layer outputs", "logits", "losses", "gradients",
                             "grad norms", "parameters", "exp_avg", "exp_avg_sq"}) {
      quantities_.push_back({});
      quantities_.back().name = name;
    }
  }

  void Record(const Site& site, Tensor global) override {
    if (site.phase == Phase::kForward && site.step == 1 && site.microbatch == 0) {
      RecordForward(site, global);
    } else if (site.tensor == "lm_loss") {
      losses_.push_back(global.at<double>({}));
    } else if (site.tensor == "grad_norm") {
      grad_norms_.push_back(global.at<double>({}));
    } else if (site.quantity == Quantity::kMainGrad && site.step == 1) {
      CompareWith("gradients", "grad/" + site.tensor, global);
    } else if (site.phase == Phase::kStep && site.step == config_.train.steps) {
      RecordFinal(site, global);
    }
  }
  void RecordCounter(const Site&, int64_t) override {}

  GoldenReport Finish() {
    CompareWith("losses", "losses", Series(losses_));
    CompareWith("grad norms", "grad_norms", Series(grad_norms_));
    return {file_.path(), std::move(quantities_)};
  }

 private:
  void RecordForward(const Site& site, const Tensor& global) {
    // The file's activations are [B, S, ...].
    if (site.tensor == "embedding") {
      CompareWith("embedding", "forward/embedding", global.Transpose(0, 1));
    } else if (site.tensor == "output_layer") {
      CompareWith("logits", "forward/logits", global.Transpose(0, 1));
    } else if (site.tensor.ends_with(".mlp_bda")) {
      CompareWith("layer outputs", "forward/layer." + std::to_string(site.layer),
                  global.Transpose(0, 1));
    }
  }
  void RecordFinal(const Site& site, const Tensor& global) {
    if (site.quantity == Quantity::kParameter) {
      CompareWith("parameters", "final/" + site.tensor, global);
    } else if (site.quantity == Quantity::kExpAvg) {
      CompareWith("exp_avg", "final_exp_avg/" + site.tensor, global);
    } else if (site.quantity == Quantity::kExpAvgSq) {
      CompareWith("exp_avg_sq", "final_exp_avg_sq/" + site.tensor, global);
    }
  }

  static Tensor Series(const std::vector<double>& values) {
    return Tensor::FromVector<double>(Context{}, {static_cast<int64_t>(values.size())}, values);
  }

  void CompareWith(const std::string& quantity, const std::string& name, const Tensor& actual) {
    const Tensor expected = LoadChecked(file_, name, DType::kF64, actual.shape());
    const Difference difference = Compare(actual, expected);
    const auto entry =
        std::find_if(quantities_.begin(), quantities_.end(),
                     [&](const GoldenQuantity& known) { return known.name == quantity; });
    PL_CHECK(entry != quantities_.end());
    entry->tensors += 1;
    if (entry->tensors == 1 || !(difference.Deviation() <= entry->deviation)) {
      entry->deviation = difference.Deviation();
      entry->tensor = name;
      entry->index = difference.index;
      entry->actual = difference.actual;
      entry->expected = difference.reference;
    }
  }

  const SafetensorsFile& file_;
  const GoldenConfig& config_;
  std::vector<GoldenQuantity> quantities_;
  std::vector<double> losses_;
  std::vector<double> grad_norms_;
};

}  // namespace

bool GoldenReport::Within(double bound) const {
  return std::all_of(quantities.begin(), quantities.end(), [&](const GoldenQuantity& quantity) {
    return quantity.tensors > 0 && quantity.deviation <= bound;
  });
}

GoldenReport CheckGolden(const std::string& path) {
  const SafetensorsFile file(path);
  const GoldenConfig config = ReadConfig(file);
  const GoldenBatches batches(file, config);
  const GivenParameters parameters = GoldenParameters(file);
  GoldenSink sink(file, config);
  try {
    RunReference(config.model, config.train, DType::kF64, parameters, batches, sink);
  } catch (const InvalidArgument& error) {
    const std::string_view what = error.what();
    if (what.starts_with(path)) throw;
    throw InvalidArgument("{}: {}", path, what);
  }
  return sink.Finish();
}

}  // namespace plumbline
