#include "oracle/reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "oracle/matrix.h"
#include "tests/oracle/fixtures.h"

namespace plumbline {
namespace {

RecordingSink Train(const ModelCase& c) {
  RecordingSink sink;
  RunReference(c.model, c.train, DType::kF64, SeededParameters(c.model, c.train.seed),
               TextBatches(c.model, c.train, RandomText(3)), sink);
  return sink;
}

double ScalarOf(const RecordingSink& sink, int32_t step, int32_t microbatch,
                const std::string& tensor) {
  const RecordedSite* found = sink.Find(step, microbatch, tensor, Quantity::kValue);
  if (found == nullptr) throw InvalidArgument("{} was not recorded", tensor);
  return found->tensor.at<double>({});
}

// The list of docs/sites.md, written out for a configuration.
class DocumentedSites {
 public:
  explicit DocumentedSites(const ModelCase& c) : c_(c) {
    Parameters({"init", "parameter"}, 0);
    for (int64_t step = 1; step <= c.train.steps; ++step) {
      for (int64_t m = 0; m < c.train.global_microbatches(); ++m) Microbatch(step, m);
      Parameters({"finalize", "main_grad"}, step);
      Add(step, -1, "finalize", "lm_loss", "value", "[]");
      Add(step, -1, "norm", "grad_norm", "value", "[]");
      if (c.train.clip_grad > 0) Add(step, -1, "norm", "clip_coefficient", "value", "[]");
      StepParameters(step);
      Add(step, -1, "step", "optimizer_step", "counter", std::to_string(step));
      Add(step, -1, "step", "consumed_samples", "counter",
          std::to_string(step * c.train.global_batch_size));
    }
  }

  std::vector<std::string> lines;

 private:
  struct Named {
    std::string name;
    std::string shape;
  };

  void Add(int64_t step, int64_t microbatch, const std::string& phase, const std::string& tensor,
           const std::string& quantity, const std::string& shape) {
    lines.push_back(
        fmt::format("{} {} {} {} {} {}", step, microbatch, phase, tensor, quantity, shape));
  }

  std::vector<Named> Activations() const {
    const TransformerConfig& m = c_.model;
    const auto shape = [&](Shape rest) {
      rest.insert(rest.begin(), {m.seq_length, c_.train.micro_batch_size});
      return ToString(rest);
    };
    const std::string hidden = shape({m.hidden_size});
    std::vector<Named> list = {{"embedding.word_embeddings", hidden}, {"embedding", hidden}};
    for (int64_t n = 0; n < m.num_layers; ++n) {
      const std::string layer = fmt::format("decoder.layers.{}.", n);
      const std::vector<Named> inner = {
          {"input_layernorm", hidden},
          {"self_attention.linear_qkv",
           shape({(m.num_attention_heads + 2 * m.num_query_groups) * m.kv_channels})},
          {"self_attention.query", shape({m.num_attention_heads, m.kv_channels})},
          {"self_attention.key", shape({m.num_query_groups, m.kv_channels})},
          {"self_attention.core_attention", shape({m.num_attention_heads * m.kv_channels})},
          {"self_attention.linear_proj", hidden},
          {"self_attn_bda", hidden},
          {"pre_mlp_layernorm", hidden},
          {"mlp.linear_fc1", shape({m.swiglu() ? 2 * m.ffn_hidden_size : m.ffn_hidden_size})},
          {"mlp.activation_func", shape({m.ffn_hidden_size})},
          {"mlp.linear_fc2", hidden},
          {"mlp_bda", hidden}};
      for (const Named& named : inner) list.push_back({layer + named.name, named.shape});
    }
    list.push_back({"decoder.final_layernorm", hidden});
    list.push_back({"output_layer", shape({m.padded_vocab_size})});
    return list;
  }

  void Microbatch(int64_t step, int64_t m) {
    std::vector<Named> activations = Activations();
    for (const Named& named : activations) {
      Add(step, m, "forward", named.name, "value", named.shape);
    }
    Add(step, m, "forward", "loss_per_token", "value",
        ToString(Shape{c_.model.seq_length, c_.train.micro_batch_size}));
    Add(step, m, "forward", "loss", "value", "[]");
    std::reverse(activations.begin(), activations.end());
    for (const Named& named : activations) {
      Add(step, m, "backward", named.name, "gradient", named.shape);
    }
  }

  std::vector<Named> ParameterList() const {
    const TransformerConfig& m = c_.model;
    std::vector<Named> list;
    const auto add = [&](const std::string& name, const Shape& weight, bool bias) {
      list.push_back({name + ".weight", ToString(weight)});
      if (bias) list.push_back({name + ".bias", ToString(Shape{weight[0]})});
    };
    const bool norm_bias = m.normalization == Normalization::kLayerNorm;
    add("embedding.word_embeddings", {m.padded_vocab_size, m.hidden_size}, false);
    if (m.position_embedding == PositionEmbedding::kLearnedAbsolute) {
      add("embedding.position_embeddings", {m.max_position_embeddings, m.hidden_size}, false);
    }
    for (int64_t n = 0; n < m.num_layers; ++n) {
      const std::string layer = fmt::format("decoder.layers.{}.", n);
      add(layer + "input_layernorm", {m.hidden_size}, norm_bias);
      add(layer + "self_attention.linear_qkv", {m.qkv_size(), m.hidden_size},
          m.add_bias_linear || m.add_qkv_bias);
      add(layer + "self_attention.linear_proj", {m.hidden_size, m.query_size()}, m.add_bias_linear);
      add(layer + "pre_mlp_layernorm", {m.hidden_size}, norm_bias);
      add(layer + "mlp.linear_fc1", {m.fc1_size(), m.hidden_size}, m.add_bias_linear);
      add(layer + "mlp.linear_fc2", {m.hidden_size, m.ffn_hidden_size}, m.add_bias_linear);
    }
    add("decoder.final_layernorm", {m.hidden_size}, norm_bias);
    if (!m.tied_embeddings) add("output_layer", {m.padded_vocab_size, m.hidden_size}, false);
    return list;
  }

  void Parameters(const std::pair<std::string, std::string>& phase_and_quantity, int64_t step) {
    for (const Named& named : ParameterList()) {
      Add(step, -1, phase_and_quantity.first, named.name, phase_and_quantity.second, named.shape);
    }
  }
  void StepParameters(int64_t step) {
    const bool adam = c_.train.optimizer == OptimizerKind::kAdam;
    for (const Named& named : ParameterList()) {
      Add(step, -1, "step", named.name, "parameter", named.shape);
      if (adam || c_.train.sgd_momentum != 0) {
        Add(step, -1, "step", named.name, "exp_avg", named.shape);
      }
      if (adam) Add(step, -1, "step", named.name, "exp_avg_sq", named.shape);
    }
  }

  const ModelCase& c_;
};

std::vector<std::string> RecordedLines(const RecordingSink& sink) {
  std::vector<std::string> lines;
  for (const RecordedSite& r : sink.records) {
    const std::string last =
        r.tensor.defined() ? ToString(r.tensor.shape()) : std::to_string(r.counter);
    lines.push_back(fmt::format("{} {} {} {} {} {}", r.site.step, r.site.microbatch,
                                Name(r.site.phase), r.site.tensor, Name(r.site.quantity), last));
  }
  return lines;
}

class ReferenceTest : public testing::TestWithParam<ModelCase> {};

TEST_P(ReferenceTest, RecordsExactlyTheDocumentedSitesInOrder) {
  const RecordingSink sink = Train(GetParam());
  EXPECT_EQ(RecordedLines(sink), DocumentedSites(GetParam()).lines);
  for (const RecordedSite& record : sink.records) {
    const std::string& name = record.site.tensor;
    const std::string prefix = "decoder.layers.";
    const int layer = name.starts_with(prefix) ? std::stoi(name.substr(prefix.size())) : -1;
    EXPECT_EQ(record.site.layer, layer) << name;
    EXPECT_EQ(record.site.chunk, -1);
  }
}

TEST_P(ReferenceTest, EveryValueIsFinite) {
  for (const RecordedSite& record : Train(GetParam()).records) {
    if (!record.tensor.defined()) continue;
    for (double value : record.tensor.ToVector<double>()) {
      ASSERT_TRUE(std::isfinite(value)) << ToString(record.site);
    }
  }
}

TEST_P(ReferenceTest, ARunRepeatsBitForBit) {
  const RecordingSink a = Train(GetParam());
  const RecordingSink b = Train(GetParam());
  ASSERT_EQ(a.records.size(), b.records.size());
  for (size_t i = 0; i < a.records.size(); ++i) {
    if (!a.records[i].tensor.defined()) continue;
    ASSERT_EQ(a.records[i].tensor.ToVector<double>(), b.records[i].tensor.ToVector<double>())
        << ToString(a.records[i].site);
  }
}

// lm_loss from the microbatches' losses, and those from the tokens' losses and the mask.
TEST_P(ReferenceTest, LossesFollowFromTheTokensLosses) {
  const ModelCase& c = GetParam();
  const RecordingSink sink = Train(c);
  const TextBatches batches(c.model, c.train, RandomText(3));
  double total = 0;
  double labels = 0;
  const int64_t microbatches = c.train.global_microbatches();
  for (int32_t m = 0; m < microbatches; ++m) {
    const Tensor mask = batches.Get(Context{}, 2, m).loss_mask;
    const Tensor tokens = sink.Find(2, m, "loss_per_token", Quantity::kValue)->tensor;
    double sum = 0;
    double count = 0;
    for (int64_t s = 0; s < c.model.seq_length; ++s) {
      for (int64_t b = 0; b < c.train.micro_batch_size; ++b) {
        sum += mask.at<double>({b, s}) * tokens.at<double>({s, b});
        count += mask.at<double>({b, s});
      }
    }
    const double loss = c.train.calculate_per_token_loss ? sum : sum / count;
    EXPECT_NEAR(ScalarOf(sink, 2, m, "loss"), loss, 1e-12);
    total += loss;
    labels += count;
  }
  const double divisor =
      c.train.calculate_per_token_loss ? labels : static_cast<double>(microbatches);
  EXPECT_NEAR(ScalarOf(sink, 2, -1, "lm_loss"), total / divisor, 1e-13);
}

TEST_P(ReferenceTest, NormAndCoefficientFollowFromTheMainGrads) {
  const RecordingSink sink = Train(GetParam());
  double squares = 0;
  for (const RecordedSite& record : sink.records) {
    if (record.site.step != 1 || record.site.quantity != Quantity::kMainGrad) continue;
    for (double value : record.tensor.ToVector<double>()) squares += value * value;
  }
  const double norm = ScalarOf(sink, 1, -1, "grad_norm");
  EXPECT_NEAR(norm, std::sqrt(squares), 1e-13 * norm);
  EXPECT_DOUBLE_EQ(ScalarOf(sink, 1, -1, "clip_coefficient"), std::min(1.0, 1 / (norm + 1e-6)));
}

// A [S, B, N] record of a microbatch as a matrix of S * B rows.
Matrix<double> Rows(const RecordingSink& sink, int32_t m, const std::string& name,
                    Quantity quantity) {
  const RecordedSite* found = sink.Find(1, m, name, quantity);
  if (found == nullptr) throw InvalidArgument("{} was not recorded", name);
  const Tensor& t = found->tensor;
  return ToMatrix<double>(t.View({t.dim(0) * t.dim(1), t.elements() / (t.dim(0) * t.dim(1))}));
}

Matrix<double> MainGrad(const RecordingSink& sink, const std::string& name) {
  return ToMatrix<double>(sink.Find(1, -1, name, Quantity::kMainGrad)->tensor);
}

// Recorded gradients are those of the step's loss: with the recorded inputs they make the
// parameters' main grads, which gradcheck_test.cc checks.
TEST_P(ReferenceTest, RecordedGradientsMakeTheMainGrads) {
  const ModelCase& c = GetParam();
  const RecordingSink sink = Train(c);
  const auto check = [&](const std::string& module, const std::string& input) {
    Matrix<double> weight = MainGrad(sink, module + ".weight").setZero();
    Matrix<double> bias = Matrix<double>::Zero(1, weight.rows());
    for (int32_t m = 0; m < c.train.global_microbatches(); ++m) {
      const Matrix<double> dy = Rows(sink, m, module, Quantity::kGradient);
      weight += dy.transpose() * Rows(sink, m, input, Quantity::kValue);
      bias += dy.colwise().sum();
    }
    const Matrix<double> expected = MainGrad(sink, module + ".weight");
    EXPECT_LE((weight - expected).norm(), 1e-13 * expected.norm()) << module;
    if (sink.Find(1, -1, module + ".bias", Quantity::kMainGrad) != nullptr) {
      const Matrix<double> expected_bias = MainGrad(sink, module + ".bias");
      EXPECT_LE((bias - expected_bias).norm(), 1e-13 * expected_bias.norm()) << module;
    }
  };
  for (int64_t n = 0; n < c.model.num_layers; ++n) {
    const std::string layer = fmt::format("decoder.layers.{}.", n);
    check(layer + "self_attention.linear_qkv", layer + "input_layernorm");
    check(layer + "self_attention.linear_proj", layer + "self_attention.core_attention");
    check(layer + "mlp.linear_fc1", layer + "pre_mlp_layernorm");
    check(layer + "mlp.linear_fc2", layer + "mlp.activation_func");
  }
  if (!c.model.tied_embeddings) check("output_layer", "decoder.final_layernorm");
}

// The gradients of what no weight sees directly, in a model without dropout.
TEST(ReferenceTest, RecordedGradientsFollowFromEachOther) {
  ModelCase c = SmallCase("");
  c.model.position_embedding = PositionEmbedding::kNone;
  const RecordingSink sink = Train(c);
  const auto gradient = [&](const std::string& name) {
    return Rows(sink, 1, name, Quantity::kGradient);
  };
  const auto parameter = [&](const std::string& name) {
    return ToMatrix<double>(sink.Find(0, -1, name, Quantity::kParameter)->tensor);
  };
  const auto near = [](const Matrix<double>& a, const Matrix<double>& b) {
    return (a - b).norm() <= 1e-13 * b.norm();
  };
  const std::string layer = "decoder.layers.1.";
  EXPECT_EQ(gradient(layer + "mlp.linear_fc2"), gradient(layer + "mlp_bda"));
  EXPECT_EQ(gradient(layer + "self_attention.linear_proj"), gradient(layer + "self_attn_bda"));
  EXPECT_EQ(gradient("embedding.word_embeddings"), gradient("embedding"));
  for (const auto& [input, module] : std::vector<std::pair<std::string, std::string>>{
           {layer + "mlp.activation_func", layer + "mlp.linear_fc2"},
           {layer + "pre_mlp_layernorm", layer + "mlp.linear_fc1"},
           {layer + "self_attention.core_attention", layer + "self_attention.linear_proj"},
           {layer + "input_layernorm", layer + "self_attention.linear_qkv"}}) {
    EXPECT_TRUE(near(gradient(input), gradient(module) * parameter(module + ".weight"))) << input;
  }
  EXPECT_TRUE(near(gradient("decoder.final_layernorm"),
                   gradient("output_layer") * parameter("embedding.word_embeddings.weight")));
  // Without rotation the queries' and keys' gradients are columns of linear_qkv's: two groups of
  // two query heads, a key and a value, 8 channels each.
  const Matrix<double> fused = gradient(layer + "self_attention.linear_qkv");
  const Matrix<double> query = gradient(layer + "self_attention.query");
  const Matrix<double> key = gradient(layer + "self_attention.key");
  for (int64_t group : {0, 1}) {
    EXPECT_EQ(query.middleCols(16 * group, 16), fused.middleCols(32 * group, 16));
    EXPECT_EQ(key.middleCols(8 * group, 8), fused.middleCols(32 * group + 16, 8));
  }
}

std::vector<ModelCase> ReferenceCases() {
  std::vector<ModelCase> cases = AllCases();
  ModelCase sgd = SmallCase("sgd_with_momentum");
  sgd.train.optimizer = OptimizerKind::kSgd;
  cases.push_back(sgd);
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Cases, ReferenceTest, testing::ValuesIn(ReferenceCases()),
                         [](const auto& info) { return info.param.name; });

TEST(ReferenceTest, WithoutClippingOrMomentumThereIsNothingToRecord) {
  ModelCase c = SmallCase("");
  c.train.optimizer = OptimizerKind::kSgd;
  c.train.sgd_momentum = 0;
  c.train.clip_grad = 0;
  EXPECT_EQ(RecordedLines(Train(c)), DocumentedSites(c).lines);
}

// SGD without momentum: p - lr (coefficient g + wd p), weight decay on matrices only.
TEST(ReferenceTest, AnSgdStepIsTheGradientsStep) {
  for (double clip : {0.0, 0.01, 1e9}) {
    ModelCase c = SmallCase("");
    c.train.optimizer = OptimizerKind::kSgd;
    c.train.sgd_momentum = 0;
    c.train.weight_decay = 0.3;
    c.train.lr = 0.05;
    c.train.clip_grad = clip;
    const RecordingSink sink = Train(c);
    const double norm = ScalarOf(sink, 1, -1, "grad_norm");
    const double coefficient = clip > 0 ? std::min(1.0, clip / (norm + 1e-6)) : 1;
    if (clip == 0.01) {
      EXPECT_LT(coefficient, 1);
    }
    int compared = 0;
    for (const RecordedSite& record : sink.records) {
      if (record.site.step != 1 || record.site.quantity != Quantity::kParameter) continue;
      const auto after = record.tensor.ToVector<double>();
      const auto before =
          sink.Find(0, -1, record.site.tensor, Quantity::kParameter)->tensor.ToVector<double>();
      const auto gradient =
          sink.Find(1, -1, record.site.tensor, Quantity::kMainGrad)->tensor.ToVector<double>();
      const double decay = record.tensor.dims() == 2 ? 0.3 : 0;
      for (size_t i = 0; i < after.size(); ++i) {
        ASSERT_NEAR(after[i], before[i] - 0.05 * (coefficient * gradient[i] + decay * before[i]),
                    1e-15);
      }
      ++compared;
    }
    EXPECT_EQ(compared, 28);
  }
}

// Tied: the table's gradient is the sum of what an untied table and output weight would get.
TEST(ReferenceTest, ATiedWeightGetsBothGradients) {
  ModelCase tied = SmallCase("");
  ModelCase untied = tied;
  untied.model.tied_embeddings = false;
  std::map<std::string, Tensor> same;
  for (const RecordedSite& record : Train(tied).records) {
    if (record.site.phase == Phase::kInit) same[record.site.tensor] = record.tensor;
  }
  same["output_layer.weight"] = same["embedding.word_embeddings.weight"];
  RecordingSink a;
  RecordingSink b;
  for (auto [c, sink] : {std::pair(&tied, &a), std::pair(&untied, &b)}) {
    RunReference(c->model, c->train, DType::kF64, GivenParameters(same),
                 TextBatches(c->model, c->train, RandomText(3)), *sink);
  }
  const auto gradient = [](const RecordingSink& sink, const std::string& name) {
    return sink.Find(1, -1, name, Quantity::kMainGrad)->tensor.ToVector<double>();
  };
  const auto both = gradient(a, "embedding.word_embeddings.weight");
  const auto input = gradient(b, "embedding.word_embeddings.weight");
  const auto output = gradient(b, "output_layer.weight");
  for (size_t i = 0; i < both.size(); ++i) EXPECT_NEAR(both[i], input[i] + output[i], 1e-15);
}

TEST(ReferenceTest, TrainingLowersTheLoss) {
  ModelCase c = SmallCase("");
  c.train.steps = 60;
  c.train.lr = 1e-2;
  EditedBatches batches(c, 3);
  batches.edit = [&](int64_t, int64_t microbatch, Batch& batch) {
    batch = TextBatches(c.model, c.train, RandomText(3)).Get(Context{}, 1, microbatch);
  };
  RecordingSink sink;
  RunReference(c.model, c.train, DType::kF64, SeededParameters(c.model, 1), batches, sink);
  EXPECT_LT(ScalarOf(sink, 60, -1, "lm_loss"), 0.5 * ScalarOf(sink, 1, -1, "lm_loss"));
}

TEST(ReferenceTest, RefusesWhatItCannotCompute) {
  const ModelCase c = SmallCase("");
  const SeededParameters parameters(c.model, 1);
  RecordingSink sink;
  EditedBatches batches(c, 3);
  EXPECT_THROW(RunReference(c.model, c.train, DType::kF32, parameters, batches, sink),
               InvalidArgument);
  EXPECT_THROW(RunReference(c.model, c.train, DType::kF64, GivenParameters({}), batches, sink),
               InvalidArgument);
  batches.edit = [](int64_t, int64_t, Batch& batch) { batch.tokens.at<int64_t>({0, 0}) = 999; };
  EXPECT_THROW(RunReference(c.model, c.train, DType::kF64, parameters, batches, sink),
               InvalidArgument);
}

}  // namespace
}  // namespace plumbline
