#include "base/init.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.h"

namespace plumbline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Tensor Whole(const ParameterSource& source, const std::string& name, const Shape& shape,
             DType dtype = DType::kF64) {
  Tensor result = Tensor::Empty(Context{}, dtype, shape);
  source.FillWhole(name, result);
  return result;
}

struct Moments {
  double mean;
  double deviation;
};

Moments MomentsOf(const std::vector<double>& values) {
  double sum = 0;
  double squares = 0;
  for (double x : values) sum += x;
  const double mean = sum / static_cast<double>(values.size());
  for (double x : values) squares += (x - mean) * (x - mean);
  return {mean, std::sqrt(squares / static_cast<double>(values.size()))};
}

TEST(SeededParametersTest, ValuesDoNotDependOnTheSharding) {
  const SeededParameters source(TransformerConfig(), 7);
  const std::string name = "decoder.layers.1.mlp.linear_fc1.weight";
  const Shape shape = {24, 10};
  const std::vector<double> whole = Whole(source, name, shape).ToVector<double>();
  const std::vector<std::vector<AxisPlacement>> layouts = {
      {},
      {Sharded("tp", {ShardStep::Block(0)})},
      {Sharded("tp", {ShardStep::Segments(0, 2)})},
      {Sharded("tp", {ShardStep::PaddedBlock(1)}), Sharded("dp", {ShardStep::Block(0)})},
      {Sharded("tp", {ShardStep::ZigZag(0)}),
       Sharded("dp", {ShardStep::Flatten(), ShardStep::Range({0, 11, 100})})}};
  ParallelConfig config;
  config.tp = 4;
  config.dp = 2;
  const Mesh mesh(config);
  for (const auto& placements : layouts) {
    for (int rank = 0; rank < 8; ++rank) {
      const LocalPiece piece = PieceOf({name, shape, placements}, mesh, rank);
      Tensor local = Tensor::Empty(Context{}, DType::kF64, piece.local_shape);
      source.Fill(name, shape, piece.global_index, local);
      const std::vector<double> values = local.ToVector<double>();
      for (size_t i = 0; i < values.size(); ++i) {
        const int64_t index = piece.global_index[i];
        ASSERT_EQ(values[i], index < 0 ? 0 : whole[index]) << "rank " << rank << " element " << i;
      }
    }
  }
}

TEST(SeededParametersTest, NamesAndSeedsHaveTheirOwnValues) {
  const SeededParameters a(TransformerConfig(), 7);
  const SeededParameters b(TransformerConfig(), 8);
  const auto values = [](const ParameterSource& source, const std::string& name) {
    return Whole(source, name, {16}).ToVector<double>();
  };
  EXPECT_EQ(values(a, "output_layer.weight"), values(a, "output_layer.weight"));
  EXPECT_NE(values(a, "output_layer.weight"), values(b, "output_layer.weight"));
  EXPECT_NE(values(a, "decoder.layers.0.mlp.linear_fc1.weight"),
            values(a, "decoder.layers.1.mlp.linear_fc1.weight"));
}

TEST(SeededParametersTest, DistributionFollowsTheName) {
  TransformerConfig model;
  model.num_layers = 8;
  model.init_method_std = 0.5;
  const SeededParameters source(model, 1);
  const int64_t n = 40000;
  // Standard errors are deviation / 200 and deviation / 283; five of them.
  const auto expect = [&](const std::string& name, double mean, double deviation) {
    const Moments moments = MomentsOf(Whole(source, name, {n}).ToVector<double>());
    EXPECT_NEAR(moments.mean, mean, deviation / 40) << name;
    EXPECT_NEAR(moments.deviation, deviation, deviation / 56) << name;
  };
  expect("embedding.word_embeddings.weight", 0, 0.5);
  expect("embedding.position_embeddings.weight", 0, 0.5);
  expect("output_layer.weight", 0, 0.5);
  expect("decoder.layers.0.self_attention.linear_qkv.weight", 0, 0.5);
  expect("decoder.layers.0.self_attention.linear_qkv.bias", 0, 0.5);
  expect("decoder.layers.0.self_attention.linear_proj.weight", 0, 0.125);
  expect("decoder.layers.0.self_attention.linear_proj.bias", 0, 0.5);
  expect("decoder.layers.0.mlp.linear_fc1.weight", 0, 0.5);
  expect("decoder.layers.0.mlp.linear_fc2.weight", 0, 0.125);
  expect("decoder.layers.0.input_layernorm.weight", 1, 0.1);
  expect("decoder.layers.0.input_layernorm.bias", 0, 0.5);
  expect("decoder.layers.0.pre_mlp_layernorm.weight", 1, 0.1);
  expect("decoder.final_layernorm.weight", 1, 0.1);
  expect("decoder.layers.0.self_attention.linear_qkv.layer_norm_weight", 1, 0.1);
  expect("decoder.layers.0.self_attention.linear_qkv.layer_norm_bias", 0, 0.5);
}

TEST(SeededParametersTest, NoValueIsExactlyZeroOrOne) {
  const SeededParameters source(TransformerConfig(), 1);
  for (const char* name : {"decoder.final_layernorm.weight", "decoder.final_layernorm.bias"}) {
    for (double x : Whole(source, name, {1000}).ToVector<double>()) {
      EXPECT_NE(x, 0);
      EXPECT_NE(x, 1);
    }
  }
}

TEST(SeededParametersTest, NarrowValuesAreTheRoundedOnes) {
  const SeededParameters source(TransformerConfig(), 1);
  const std::vector<double> wide = Whole(source, "output_layer.weight", {100}).ToVector<double>();
  const std::vector<float> narrow =
      Whole(source, "output_layer.weight", {100}, DType::kF32).ToVector<float>();
  for (size_t i = 0; i < wide.size(); ++i) EXPECT_EQ(narrow[i], static_cast<float>(wide[i]));
}

TEST(SeededParametersTest, PaddingBecomesZeroAndWrongPiecesAreBugs) {
  const SeededParameters source(TransformerConfig(), 1);
  Tensor local = Tensor::Empty(Context{}, DType::kF64, {3});
  source.Fill("output_layer.weight", {10}, {4, -1, 9}, local);
  EXPECT_EQ(local.at<double>({1}), 0);
  EXPECT_NE(local.at<double>({2}), 0);
  EXPECT_THROW(source.Fill("output_layer.weight", {10}, {4, -1}, local), Internal);
  EXPECT_THROW(source.Fill("output_layer.weight", {9}, {4, -1, 9}, local), Internal);
  Tensor strided = Tensor::Empty(Context{}, DType::kF64, {3, 2}).Select(1, 0);
  EXPECT_THROW(source.Fill("output_layer.weight", {10}, {4, -1, 9}, strided), Internal);
}

TEST(GivenParametersTest, FillsFromTheTensorsAtGlobalIndices) {
  const Tensor given =
      Tensor::FromVector<double>(Context{}, {2, 3}, {0, 1, 2, 3, 4, 5}).Transpose(0, 1);
  const GivenParameters source({{"w", given}});
  EXPECT_EQ(Whole(source, "w", {3, 2}).ToVector<double>(), given.ToVector<double>());
  Tensor local = Tensor::Empty(Context{}, DType::kF32, {3});
  source.Fill("w", {3, 2}, {5, -1, 1}, local);
  EXPECT_THAT(local.ToVector<float>(), ::testing::ElementsAre(5, 0, 3));
}

TEST(GivenParametersTest, MissingOrMisshapenIsRefused) {
  const GivenParameters source({{"w", Tensor::Zeros(Context{}, DType::kF64, {2, 3})}});
  Tensor local = Tensor::Empty(Context{}, DType::kF64, {1});
  EXPECT_THAT(
      [&] {
        source.Fill("v", {2, 3}, {0}, local);
      },
      ThrowsMessage<InvalidArgument>(HasSubstr("parameter v")));
  EXPECT_THAT(
      [&] {
        source.Fill("w", {3, 2}, {0}, local);
      },
      ThrowsMessage<InvalidArgument>(
          AllOf(HasSubstr("w"), HasSubstr("[2, 3]"), HasSubstr("[3, 2]"))));
}

// A bf16 or fp16 run and its f64 reference start from the same numbers.
TEST(RoundedParametersTest, EqualsWhatTheNarrowDtypeHolds) {
  const SeededParameters source(TransformerConfig(), 7);
  const std::string name = "decoder.layers.0.mlp.linear_fc1.bias";
  const std::vector<double> exact = Whole(source, name, {500}).ToVector<double>();
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    const RoundedParameters rounded(source, dtype);
    const std::vector<double> f64 = Whole(rounded, name, {500}).ToVector<double>();
    const Tensor narrow = Whole(source, name, {500}, dtype);
    EXPECT_EQ(std::memcmp(Whole(rounded, name, {500}, dtype).raw(), narrow.raw(), narrow.bytes()),
              0);
    double largest = 0;
    for (size_t i = 0; i < f64.size(); ++i) {
      const double held =
          DispatchReal(dtype, [&]<class T>() { return static_cast<double>(narrow.data<T>()[i]); });
      ASSERT_EQ(f64[i], held);
      largest = std::max(largest, std::abs(f64[i] - exact[i]) / std::abs(exact[i]));
    }
    EXPECT_LE(largest, UnitRoundoff(dtype));
    EXPECT_GT(largest, UnitRoundoff(dtype) / 4);
  }
}

TEST(RoundedParametersTest, GivenValuesRoundOnceAndPaddingIsZero) {
  const double tie = 1 + 0x1p-8 + 0x1p-40;
  const GivenParameters given({{"w", Tensor::FromVector<double>(Context{}, {2}, {tie, -3})}});
  Tensor local = Tensor::Empty(Context{}, DType::kBF16, {3});
  given.Fill("w", {2}, {1, -1, 0}, local);
  EXPECT_EQ(static_cast<double>(local.data<BF16>()[0]), -3);
  EXPECT_EQ(static_cast<double>(local.data<BF16>()[1]), 0);
  EXPECT_EQ(static_cast<double>(local.data<BF16>()[2]), 1 + 0x1p-7);
}

}  // namespace
}  // namespace plumbline
