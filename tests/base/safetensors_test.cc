#include "base/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"

namespace plumbline {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

std::string Length(uint64_t n) {
  std::string bytes(8, '\0');
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(n >> (8 * i));
  return bytes;
}

template <class T>
std::string BytesOf(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

std::string WriteFile(const std::string& content) {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  std::string name = std::string(test->test_suite_name()) + "." + test->name();
  for (char& c : name) c = c == '/' ? '.' : c;
  const std::string path = ::testing::TempDir() + "/" + name + ".safetensors";
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

std::string WithHeader(const std::string& header, const std::string& data) {
  return Length(header.size()) + header + data;
}

TEST(SafetensorsTest, ReadsEveryDtypeAndTheMetadata) {
  const std::string data = BytesOf<double>({1.5, -2}) + BytesOf<float>({0.25f, 3}) +
                           BytesOf<int64_t>({-7}) + std::string("\x80\x3f\x00\x3c", 4);
  const SafetensorsFile file(
      WriteFile(WithHeader(R"({"__metadata__":{"config":"{\"a\": 1}"},)"
                           R"("d":{"dtype":"F64","shape":[1,2],"data_offsets":[0,16]},)"
                           R"("f":{"dtype":"F32","shape":[2],"data_offsets":[16,24]},)"
                           R"("i":{"dtype":"I64","shape":[],"data_offsets":[24,32]},)"
                           R"("b":{"dtype":"BF16","shape":[1],"data_offsets":[32,34]},)"
                           R"("h":{"dtype":"F16","shape":[1],"data_offsets":[34,36]},)"
                           R"("e":{"dtype":"F64","shape":[0,3],"data_offsets":[36,36]}}   )",
                           data)));
  EXPECT_EQ(file.entries().size(), 6u);
  EXPECT_EQ(file.metadata().at("config"), "{\"a\": 1}");
  const Context context;
  EXPECT_EQ(file.Load(context, "d").shape(), (Shape{1, 2}));
  EXPECT_THAT(file.Load(context, "d").ToVector<double>(), ElementsAre(1.5, -2));
  EXPECT_THAT(file.Load(context, "f").ToVector<float>(), ElementsAre(0.25f, 3));
  EXPECT_THAT(file.Load(context, "i").ToVector<int64_t>(), ElementsAre(-7));
  EXPECT_EQ(file.Load(context, "e").elements(), 0);
  const Tensor bf16 = file.Load(context, "b");
  EXPECT_EQ(bf16.dtype(), DType::kBF16);
  EXPECT_EQ(std::memcmp(bf16.raw(), "\x80\x3f", 2), 0);
  EXPECT_EQ(file.Load(context, "h").dtype(), DType::kF16);
  EXPECT_TRUE(file.Has("d"));
  EXPECT_FALSE(file.Has("x"));
  EXPECT_THAT([&] { file.Load(context, "x"); },
              ThrowsMessage<InvalidArgument>(HasSubstr("no tensor 'x'")));
}

TEST(SafetensorsTest, EmptyFileOfNoTensorsIsValid) {
  EXPECT_TRUE(SafetensorsFile(WriteFile(WithHeader("{}", ""))).entries().empty());
}

// "t" with the given fields, behind 16 bytes of data.
std::string OneTensor(const std::string& fields) {
  return WithHeader("{\"t\":{" + fields + "}}", std::string(16, 'x'));
}

struct Malformed {
  std::string name;
  std::string content;
  std::string expected;  // in the message
};

const std::vector<Malformed> kMalformed = {
    {"empty_file", "", "too short"},
    {"short_length", "1234567", "too short"},
    {"no_header", Length(1), "only 0 bytes follow"},
    {"truncated_header", Length(100) + "{}", "header of 100 bytes"},
    {"huge_header", Length(~uint64_t{0}) + "{}", "header of 18446744073709551615 bytes"},
    {"header_of_half_the_range", Length(uint64_t{1} << 63) + "{}", "only 2 bytes follow"},
    {"no_json", WithHeader("{", ""), "no valid JSON"},
    {"empty_header", WithHeader("", ""), "no valid JSON"},
    {"trailing_json", WithHeader("{}{}", ""), "no valid JSON"},
    {"control_characters", WithHeader("{\"a\nb\":1}", ""), "no valid JSON"},
    {"not_utf8", WithHeader("{\"\xff\":1}", ""), "no valid JSON"},
    {"deep_json", WithHeader(std::string(200000, '['), ""), "no valid JSON"},
    {"list", WithHeader("[]", ""), "no JSON object"},
    {"number", WithHeader("1", ""), "no JSON object"},
    {"entry_no_object", WithHeader("{\"t\":1}", ""), "'t' is no object"},
    {"metadata_no_object", WithHeader("{\"__metadata__\":1}", ""), "__metadata__"},
    {"metadata_no_string", WithHeader("{\"__metadata__\":{\"a\":1}}", ""), "'a' is no string"},
    {"no_dtype", OneTensor(R"("shape":[2],"data_offsets":[0,16])"), "'dtype'"},
    {"dtype_no_string", OneTensor(R"("dtype":1,"shape":[2],"data_offsets":[0,16])"), "'dtype'"},
    {"unknown_dtype", OneTensor(R"("dtype":"F8","shape":[2],"data_offsets":[0,16])"), "'F8'"},
    {"no_shape", OneTensor(R"("dtype":"F64","data_offsets":[0,16])"), "'shape'"},
    {"shape_no_list", OneTensor(R"("dtype":"F64","shape":2,"data_offsets":[0,16])"), "'shape'"},
    {"negative_extent", OneTensor(R"("dtype":"F64","shape":[-2],"data_offsets":[0,16])"),
     "'shape'"},
    {"broken_extent", OneTensor(R"("dtype":"F64","shape":[2.0],"data_offsets":[0,16])"), "'shape'"},
    {"text_extent", OneTensor(R"("dtype":"F64","shape":["2"],"data_offsets":[0,16])"), "'shape'"},
    {"huge_extent",
     OneTensor(R"("dtype":"F64","shape":[18446744073709551615],"data_offsets":[0,16])"), "'shape'"},
    {"overflowing_shape",
     OneTensor(R"("dtype":"F64","shape":[4294967296,4294967296,2],"data_offsets":[0,16])"),
     "too many elements"},
    {"overflowing_empty_shape",
     OneTensor(R"("dtype":"F64","shape":[0,4294967296,4294967296],"data_offsets":[0,0])"),
     "too many elements"},
    {"no_offsets", OneTensor(R"("dtype":"F64","shape":[2])"), "'data_offsets'"},
    {"one_offset", OneTensor(R"("dtype":"F64","shape":[2],"data_offsets":[0])"), "data_offsets"},
    {"three_offsets", OneTensor(R"("dtype":"F64","shape":[2],"data_offsets":[0,8,16])"),
     "data_offsets"},
    {"reversed_offsets", OneTensor(R"("dtype":"F64","shape":[2],"data_offsets":[16,0])"),
     "begin <= end"},
    {"offset_past_the_end", OneTensor(R"("dtype":"F64","shape":[3],"data_offsets":[0,24])"),
     "past the file's 16 bytes"},
    {"huge_offset",
     OneTensor(R"("dtype":"F64","shape":[2],"data_offsets":[0,18446744073709551615])"),
     "'data_offsets'"},
    {"too_few_bytes", OneTensor(R"("dtype":"F64","shape":[3],"data_offsets":[0,16])"),
     "has 16 bytes, but f64[3] takes 24"},
    {"too_many_bytes", OneTensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,16])"),
     "has 16 bytes, but f32[2] takes 8"},
    {"gap_before", OneTensor(R"("dtype":"F64","shape":[1],"data_offsets":[8,16])"), "gap"},
    {"gap_after", OneTensor(R"("dtype":"F64","shape":[1],"data_offsets":[0,8])"),
     "16 bytes of data, but the tensors take 8"},
    {"overlap",
     WithHeader(R"({"a":{"dtype":"F64","shape":[2],"data_offsets":[0,16]},)"
                R"("b":{"dtype":"F64","shape":[1],"data_offsets":[8,16]}})",
                std::string(16, 'x')),
     "overlaps"},
    {"same_name_twice",
     WithHeader(R"({"a":{"dtype":"F64","shape":[1],"data_offsets":[0,8]},)"
                R"("a":{"dtype":"F64","shape":[1],"data_offsets":[8,16]}})",
                std::string(16, 'x')),
     "'a' twice"},
    {"same_field_twice",
     OneTensor(R"("dtype":"F32","dtype":"F64","shape":[2],"data_offsets":[0,16])"),
     "'dtype' twice"},
    {"unprintable_name", WithHeader("{\"a\\nb\":1}", ""), "'a?b' is no object"},
    {"truncated_data",
     WithHeader(R"({"t":{"dtype":"F64","shape":[2],"data_offsets":[0,16]}})", std::string(15, 'x')),
     "past the file's 15 bytes"},
};

class SafetensorsMalformedTest : public ::testing::TestWithParam<Malformed> {};

TEST_P(SafetensorsMalformedTest, IsRefusedInOneLineThatNamesTheFile) {
  const std::string path = WriteFile(GetParam().content);
  EXPECT_THAT([&] { SafetensorsFile file(path); },
              ThrowsMessage<InvalidArgument>(
                  AllOf(HasSubstr(path), HasSubstr(GetParam().expected), Not(HasSubstr("\n")))));
}

INSTANTIATE_TEST_SUITE_P(Files, SafetensorsMalformedTest, ::testing::ValuesIn(kMalformed),
                         [](const auto& info) { return info.param.name; });

// Every prefix of a valid file is an error, never a crash; so is every changed byte of the header
// unless the file still describes its data.
TEST(SafetensorsTest, NoPrefixAndNoChangedByteIsReadOutOfBounds) {
  const std::string content =
      WithHeader(R"({"a":{"dtype":"F64","shape":[1,2],"data_offsets":[0,16]},)"
                 R"("b":{"dtype":"I64","shape":[1],"data_offsets":[16,24]}})",
                 std::string(24, 'x'));
  for (size_t n = 0; n < content.size(); ++n) {
    EXPECT_THROW(SafetensorsFile file(WriteFile(content.substr(0, n))), InvalidArgument) << n;
  }
  int refused = 0;
  for (size_t at = 0; at < content.size() - 24; ++at) {
    for (char c : {'\0', '9', '"', '{', '\xff'}) {
      std::string changed = content;
      changed[at] = c;
      try {
        const SafetensorsFile file(WriteFile(changed));
        for (const auto& [name, entry] : file.entries()) file.Load(Context{}, name);
      } catch (const InvalidArgument&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 400);
}

TEST(SafetensorsTest, UnreadableFilesAreIoErrors) {
  EXPECT_THAT([] { SafetensorsFile file("/nonexistent/x.safetensors"); },
              ThrowsMessage<IoError>(HasSubstr("/nonexistent/x.safetensors")));
  EXPECT_THAT([] { SafetensorsFile file(::testing::TempDir()); },
              ThrowsMessage<IoError>(HasSubstr("regular")));
}

TEST(SafetensorsTest, FileThatShrinksBeforeLoadIsAnIoError) {
  const std::string path = WriteFile(WithHeader(
      R"({"t":{"dtype":"F64","shape":[2],"data_offsets":[0,16]}})", std::string(16, 'x')));
  const SafetensorsFile file(path);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  EXPECT_THAT([&] { file.Load(Context{}, "t"); },
              ThrowsMessage<IoError>(HasSubstr("read 15 of 16 bytes")));
}

// A golden file makes sense: the embedding's output is the sum of two rows of its parameters.
TEST(SafetensorsTest, GoldenEmbeddingIsTheSumOfItsRows) {
  const SafetensorsFile file("tests/golden/gpt2_tied_learned.safetensors");
  const Context context;
  EXPECT_THAT(file.metadata().at("config"), HasSubstr("\"vocab_size\": 61"));
  const Tensor tokens = file.Load(context, "tokens");
  const Tensor words = file.Load(context, "init/embedding.word_embeddings.weight");
  const Tensor positions = file.Load(context, "init/embedding.position_embeddings.weight");
  const Tensor output = file.Load(context, "forward/embedding");
  ASSERT_EQ(output.shape(), (Shape{2, 16, 32}));
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t s = 0; s < 16; ++s) {
      const int64_t token = tokens.at<int64_t>({0, 0, b, s});
      for (int64_t h = 0; h < 32; ++h) {
        EXPECT_EQ(output.at<double>({b, s, h}),
                  words.at<double>({token, h}) + positions.at<double>({s, h}));
      }
    }
  }
}

}  // namespace
}  // namespace plumbline
