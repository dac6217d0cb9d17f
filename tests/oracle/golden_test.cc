#include "oracle/golden.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace plumbline {
namespace {

using Json = nlohmann::json;

constexpr double kBound = 1e-9;

std::string GoldenPath(const std::string& name) { return "tests/golden/" + name + ".safetensors"; }

std::string Describe(const GoldenReport& report) {
  std::string text;
  for (const GoldenQuantity& q : report.quantities) {
    text += fmt::format("{}: {} tensors, {:.3g} at {} [{}]: {} for {}\n", q.name, q.tensors,
                        q.deviation, q.tensor, q.index, q.actual, q.expected);
  }
  return text;
}

const GoldenQuantity& Quantity(const GoldenReport& report, const std::string& name) {
  for (const GoldenQuantity& quantity : report.quantities) {
    if (quantity.name == name) return quantity;
  }
  throw InvalidArgument("no quantity {}", name);
}

// A safetensors file in memory, for tests that change one thing.
struct File {
  Json header;
  std::string data;

  static File Read(const std::string& name) {
    std::ifstream in(GoldenPath(name), std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(in)), {});
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof(length));
    return {Json::parse(bytes.substr(8, length)), bytes.substr(8 + length)};
  }
  std::string Write(const std::string& name) const {
    const std::string path = testing::TempDir() + "/" + name + ".safetensors";
    const std::string text = header.dump();
    const uint64_t length = text.size();
    std::ofstream out(path, std::ios::binary);
    out.write(reinterpret_cast<const char*>(&length), sizeof(length));
    out << text << data;
    return path;
  }
  Json Config() const { return Json::parse(header["__metadata__"]["config"].get<std::string>()); }
  void SetConfig(const Json& config) { header["__metadata__"]["config"] = config.dump(); }
  double& Value(const std::string& tensor, size_t index) {
    const auto begin = header[tensor]["data_offsets"][0].get<size_t>();
    return *reinterpret_cast<double*>(data.data() + begin + index * sizeof(double));
  }
};

class GoldenTest : public testing::TestWithParam<std::string> {};

TEST_P(GoldenTest, OracleRepeatsTheOutsideRun) {
  const GoldenReport report = CheckGolden(GoldenPath(GetParam()));
  EXPECT_TRUE(report.Within(kBound)) << Describe(report);
  // Everything that the file holds was compared: logits, embedding, two layers, losses, norms, and
  // per parameter a gradient, a value and two moments.
  const File file = File::Read(GetParam());
  int64_t parameters = 0;
  for (const auto& [name, entry] : file.header.items()) {
    if (name.starts_with("init/")) ++parameters;
  }
  EXPECT_GE(parameters, 14);
  for (const char* name : {"gradients", "parameters", "exp_avg", "exp_avg_sq"}) {
    EXPECT_EQ(Quantity(report, name).tensors, parameters) << name;
  }
  for (const char* name : {"embedding", "logits", "losses", "grad norms"}) {
    EXPECT_EQ(Quantity(report, name).tensors, 1) << name;
  }
  EXPECT_EQ(Quantity(report, "layer outputs").tensors, 2);
}

INSTANTIATE_TEST_SUITE_P(Files, GoldenTest,
                         testing::Values("gpt2_tied_learned", "llama_gqa_swiglu",
                                         "mqa_partial_rotary_linear_scaling", "packed_documents",
                                         "per_token_loss"),
                         [](const auto& info) { return info.param; });

struct Change {
  std::string quantity;
  std::string tensor;
  size_t index;
};

class GoldenChangeTest : public testing::TestWithParam<Change> {};

TEST_P(GoldenChangeTest, OneChangedValueIsFoundWhereItIs) {
  const Change& change = GetParam();
  File file = File::Read("packed_documents");
  double& value = file.Value(change.tensor, change.index);
  const double before = value;
  value += 1e-6;
  const GoldenReport report = CheckGolden(file.Write("changed"));
  EXPECT_FALSE(report.Within(kBound));
  for (const GoldenQuantity& quantity : report.quantities) {
    EXPECT_EQ(!(quantity.deviation <= kBound), quantity.name == change.quantity) << quantity.name;
  }
  const GoldenQuantity& found = Quantity(report, change.quantity);
  EXPECT_EQ(found.tensor, change.tensor);
  EXPECT_EQ(found.index, static_cast<int64_t>(change.index));
  EXPECT_EQ(found.expected, before + 1e-6);
  EXPECT_NEAR(found.actual, before, 1e-12);

  value = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(CheckGolden(file.Write("nan")).Within(kBound));
}

INSTANTIATE_TEST_SUITE_P(
    Tensors, GoldenChangeTest,
    testing::Values(Change{"embedding", "forward/embedding", 17},
                    Change{"layer outputs", "forward/layer.1", 100},
                    Change{"logits", "forward/logits", 99}, Change{"losses", "losses", 2},
                    Change{"gradients", "grad/decoder.layers.1.mlp.linear_fc1.weight", 5},
                    Change{"grad norms", "grad_norms", 1},
                    Change{"parameters", "final/decoder.final_layernorm.weight", 3},
                    Change{"exp_avg", "final_exp_avg/output_layer.weight", 8},
                    Change{"exp_avg_sq", "final_exp_avg_sq/output_layer.weight", 9}),
    [](const auto& info) {
      std::string name = info.param.quantity;
      std::replace(name.begin(), name.end(), ' ', '_');
      return name;
    });

// A model that differs in one setting does not pass: the files have power.
TEST(GoldenTest, AnotherModelIsFarOff) {
  const std::vector<std::pair<std::string, Json>> changes = {
      {"normalization", "LayerNorm"}, {"rotary_interleaved", true}, {"rotary_base", 9999.0}};
  for (const auto& [key, value] : changes) {
    File file = File::Read("llama_gqa_swiglu");
    Json config = file.Config();
    config[key] = value;
    file.SetConfig(config);
    try {
      EXPECT_FALSE(CheckGolden(file.Write("other")).Within(1e-6)) << key;
    } catch (const InvalidArgument& error) {
      // LayerNorm wants biases that the file lacks.
      EXPECT_EQ(key, "normalization") << error.what();
    }
  }
}

struct Malformed {
  std::string name;
  std::function<void(Json&)> edit_config;  // either of the two
  std::function<void(File&)> edit_file;
  std::string message;
};

class MalformedGoldenTest : public testing::TestWithParam<Malformed> {};

TEST_P(MalformedGoldenTest, IsRefusedNamingFileAndKey) {
  File file = File::Read("packed_documents");
  if (GetParam().edit_config) {
    Json config = file.Config();
    GetParam().edit_config(config);
    file.SetConfig(config);
  } else {
    GetParam().edit_file(file);
  }
  const std::string path = file.Write("malformed_" + GetParam().name);
  try {
    CheckGolden(path);
    FAIL() << "accepted";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), testing::StartsWith(path));
    EXPECT_THAT(error.what(), testing::HasSubstr(GetParam().message));
    EXPECT_THAT(error.what(), testing::Not(testing::HasSubstr("\n")));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Files, MalformedGoldenTest,
    testing::Values(
        Malformed{"no_config",
                  {},
                  [](File& f) { f.header["__metadata__"].erase("config"); },
                  "config is missing"},
        Malformed{"no_json",
                  {},
                  [](File& f) { f.header["__metadata__"]["config"] = "{"; },
                  "config is not JSON"},
        Malformed{"no_object",
                  {},
                  [](File& f) { f.header["__metadata__"]["config"] = "3"; },
                  "expected an object"},
        Malformed{
            "unknown", [](Json& c) { c["num_experts"] = 8; }, {}, "num_experts is not supported"},
        Malformed{"unknown_inner",
                  [](Json& c) { c["train"]["nesterov"] = true; },
                  {},
                  "train.nesterov is not supported"},
        Malformed{"missing", [](Json& c) { c.erase("hidden_size"); }, {}, "hidden_size is missing"},
        Malformed{"type",
                  [](Json& c) { c["hidden_size"] = "32"; },
                  {},
                  "hidden_size is \"32\", expected an integer"},
        Malformed{"fraction", [](Json& c) { c["seq"] = 16.5; }, {}, "seq is 16.5"},
        Malformed{"huge", [](Json& c) { c["vocab_size"] = 1e300; }, {}, "vocab_size is 1e+300"},
        Malformed{"negative", [](Json& c) { c["num_layers"] = -1; }, {}, "num_layers is -1"},
        Malformed{"choice",
                  [](Json& c) { c["activation"] = "relu"; },
                  {},
                  "activation is \"relu\", expected one of gelu_tanh"},
        Malformed{"flag", [](Json& c) { c["tied"] = 1; }, {}, "tied is 1"},
        Malformed{"train", [](Json& c) { c["train"] = 3; }, {}, "train is 3, expected an object"},
        Malformed{"illegal",
                  [](Json& c) { c["num_query_groups"] = 3; },
                  {},
                  "--num-attention-heads 4 must be a multiple"},
        Malformed{"shape", [](Json& c) { c["seq"] = 15; }, {}, "tensor tokens is i64"},
        Malformed{"no_tensor",
                  {},
                  [](File& f) {
                    std::swap(f.header["other"], f.header["losses"]);
                    f.header.erase("losses");
                  },
                  "losses"},
        Malformed{"no_parameter",
                  {},
                  [](File& f) {
                    std::swap(f.header["other"], f.header["init/output_layer.weight"]);
                    f.header.erase("init/output_layer.weight");
                  },
                  "output_layer.weight"},
        Malformed{"token",
                  {},
                  [](File& f) {
                    const int64_t outside = 61;
                    std::memcpy(&f.Value("tokens", 3), &outside, sizeof(outside));
                  },
                  "token 61"},
        Malformed{"mask", {}, [](File& f) { f.Value("loss_mask", 3) = 0.5; }, "loss_mask 0.5"}),
    [](const auto& info) { return info.param.name; });

TEST(GoldenTest, AMissingFileIsAnIoError) {
  EXPECT_THROW(CheckGolden("/nowhere.safetensors"), IoError);
}

TEST(GoldenTest, AFileThatIsNotSafetensorsIsRefused) {
  EXPECT_THROW(CheckGolden("tests/golden/packed_documents.json"), InvalidArgument);
}

}  // namespace
}  // namespace plumbline
