#include "base/logical_tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/rng.h"

namespace plumbline {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Mesh MeshOf(int tp, int dp, int cp = 1) {
  ParallelConfig config;
  config.tp = tp;
  config.dp = dp;
  config.cp = cp;
  return Mesh(config);
}

// How often each global element is held over all ranks; checks shapes on the way.
std::vector<int> Cover(const LogicalTensor& tensor, const Mesh& mesh) {
  std::vector<int> count(static_cast<size_t>(ElementsOf(tensor.global_shape)), 0);
  for (int rank = 0; rank < mesh.world_size(); ++rank) {
    const LocalPiece piece = PieceOf(tensor, mesh, rank);
    EXPECT_EQ(ElementsOf(piece.local_shape), static_cast<int64_t>(piece.global_index.size()));
    for (int64_t index : piece.global_index) {
      if (index >= 0) ++count.at(static_cast<size_t>(index));
    }
  }
  return count;
}

std::vector<int64_t> IndicesOf(const LogicalTensor& tensor, const Mesh& mesh, int rank) {
  return PieceOf(tensor, mesh, rank).global_index;
}

struct NamedStep {
  std::string name;
  // The step for an axis of `extent` over `parts`, or nothing when it does not divide.
  std::function<std::vector<ShardStep>(int64_t axis, int64_t extent, int64_t parts)> make;
};

std::vector<int64_t> SomeOffsets(int64_t extent, int64_t parts) {
  std::vector<int64_t> offsets = {0};
  for (int64_t i = 1; i < parts; ++i) offsets.push_back(extent * i * i / (parts * parts));
  offsets.push_back(extent + 3);
  return offsets;
}

const std::vector<NamedStep> kSteps = {
    {"block",
     [](int64_t axis, int64_t extent, int64_t parts) {
       return extent % parts == 0 ? std::vector{ShardStep::Block(axis)} : std::vector<ShardStep>();
     }},
    {"halves",
     [](int64_t axis, int64_t extent, int64_t parts) {
       return extent % (2 * parts) == 0 ? std::vector{ShardStep::Segments(axis, 2)}
                                        : std::vector<ShardStep>();
     }},
    {"zigzag",
     [](int64_t axis, int64_t extent, int64_t parts) {
       return extent % (2 * parts) == 0 ? std::vector{ShardStep::ZigZag(axis)}
                                        : std::vector<ShardStep>();
     }},
    {"padded_block",
     [](int64_t axis, int64_t, int64_t) { return std::vector{ShardStep::PaddedBlock(axis)}; }},
    {"rows",
     [](int64_t axis, int64_t extent, int64_t parts) {
       // Dealt out from the last on.
       std::vector<std::vector<int64_t>> rows(static_cast<size_t>(parts));
       for (int64_t i = extent; i-- > 0;) rows[static_cast<size_t>(i % parts)].push_back(i);
       return std::vector{ShardStep::Rows(axis, rows)};
     }},
};

class ShardStepTest : public ::testing::TestWithParam<NamedStep> {};

TEST_P(ShardStepTest, PartsCoverEachElementOnce) {
  int covered = 0;
  for (int parts = 1; parts <= 8; ++parts) {
    const Mesh mesh = MeshOf(parts, 1);
    for (int64_t extent : {0, 1, 2, 5, 7, 8, 12, 16, 24, 48}) {
      for (int64_t axis : {0, 1, 2, -1}) {
        Shape shape = {3, 2, 5};
        shape[static_cast<size_t>(axis < 0 ? 2 : axis)] = extent;
        const std::vector<ShardStep> steps = GetParam().make(axis, extent, parts);
        if (steps.empty()) continue;
        const LogicalTensor tensor = {"x", shape, {Sharded("tp", steps)}};
        EXPECT_THAT(Cover(tensor, mesh), Each(1)) << parts << " of " << extent;
        ++covered;
      }
    }
  }
  EXPECT_GT(covered, 50);
}

TEST_P(ShardStepTest, OnePartHoldsEverything) {
  const LogicalTensor tensor = {"x", {8, 3}, {Sharded("tp", GetParam().make(0, 8, 1))}};
  const LocalPiece piece = PieceOf(tensor, MeshOf(1, 1), 0);
  EXPECT_EQ(piece.local_shape, tensor.global_shape);
  EXPECT_EQ(piece.whole, GetParam().name != "rows") << "those rows are in reverse";
}

// A cut acts on what the cut before it left: positions in the piece of a piece are positions in the
// first piece.
TEST_P(ShardStepTest, CutsCompose) {
  const Mesh mesh = MeshOf(2, 3);
  for (const NamedStep& second : kSteps) {
    const int64_t extent = 24;
    const Shape shape = {2, extent};
    const std::vector<ShardStep> first_steps = GetParam().make(1, extent, 2);
    const std::vector<ShardStep> second_steps = second.make(1, extent / 2, 3);
    const LogicalTensor both = {
        "x", shape, {Sharded("tp", first_steps), Sharded("dp", second_steps)}};
    EXPECT_THAT(Cover(both, mesh), Each(1)) << second.name;
    for (int rank = 0; rank < 6; ++rank) {
      const LocalPiece outer = PieceOf({"x", shape, {Sharded("tp", first_steps)}}, mesh, rank);
      const LocalPiece inner =
          PieceOf({"x", outer.local_shape, {Sharded("dp", second_steps)}}, mesh, rank);
      std::vector<int64_t> expected;
      for (int64_t i : inner.global_index) expected.push_back(i < 0 ? -1 : outer.global_index[i]);
      const LocalPiece piece = PieceOf(both, mesh, rank);
      EXPECT_EQ(piece.global_index, expected) << second.name << " rank " << rank;
      EXPECT_EQ(piece.local_shape, inner.local_shape);
    }
  }
}

// The distributed optimizer: a tensor-parallel shard, flattened, cut at arbitrary offsets.
TEST_P(ShardStepTest, FlattenedRangesCoverEachElementOnce) {
  for (int tp : {1, 2, 4}) {
    for (int dp : {1, 2, 3, 5}) {
      const int64_t extent = 16;
      const int64_t local = extent * 3 / tp;
      const LogicalTensor tensor = {
          "x",
          {extent, 3},
          {Sharded("tp", GetParam().make(0, extent, tp)),
           Sharded("dp", {ShardStep::Flatten(), ShardStep::Range(SomeOffsets(local, dp))})}};
      const Mesh mesh = MeshOf(tp, dp);
      EXPECT_THAT(Cover(tensor, mesh), Each(1)) << tp << " x " << dp;
      const LocalPiece last = PieceOf(tensor, mesh, mesh.world_size() - 1);
      EXPECT_EQ(last.local_shape.size(), 1u);
      EXPECT_EQ(last.global_index.back(), -1) << "the offsets end past the tensor";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, ShardStepTest, ::testing::ValuesIn(kSteps),
                         [](const auto& info) { return info.param.name; });

LogicalTensor Vector(int64_t extent, ShardStep step, const std::string& axis = "tp") {
  return {"x", {extent}, {Sharded(axis, {std::move(step)})}};
}

TEST(ShardStepExamplesTest, WhichRowsAPartHolds) {
  const Mesh mesh = MeshOf(2, 1);
  EXPECT_THAT(IndicesOf(Vector(8, ShardStep::Block(0)), mesh, 1), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(IndicesOf(Vector(8, ShardStep::Segments(0, 2)), mesh, 0), ElementsAre(0, 1, 4, 5));
  EXPECT_THAT(IndicesOf(Vector(8, ShardStep::ZigZag(0)), mesh, 0), ElementsAre(0, 1, 6, 7));
  EXPECT_THAT(IndicesOf(Vector(8, ShardStep::ZigZag(0)), mesh, 1), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(IndicesOf(Vector(5, ShardStep::PaddedBlock(0)), mesh, 0), ElementsAre(0, 1, 2));
  EXPECT_THAT(IndicesOf(Vector(5, ShardStep::PaddedBlock(0)), mesh, 1), ElementsAre(3, 4, -1));
  EXPECT_THAT(IndicesOf(Vector(5, ShardStep::Range({1, 3, 7})), mesh, 1),
              ElementsAre(3, 4, -1, -1));
  EXPECT_THAT(IndicesOf(Vector(5, ShardStep::Range({1, 3, 7})), mesh, 0), ElementsAre(1, 2));
}

TEST(ShardStepExamplesTest, MorePartsThanRowsLeavePurePadding) {
  const Mesh mesh = MeshOf(8, 1);
  const LogicalTensor tensor = {"x", {3, 2}, {Sharded("tp", {ShardStep::PaddedBlock(0)})}};
  EXPECT_THAT(IndicesOf(tensor, mesh, 2), ElementsAre(4, 5));
  EXPECT_THAT(IndicesOf(tensor, mesh, 3), ElementsAre(-1, -1));
  EXPECT_FALSE(PieceOf(tensor, mesh, 3).whole);
}

TEST(ShardStepExamplesTest, PaddingInSeveralDimensionsStaysPadding) {
  const Mesh mesh = MeshOf(2, 2);
  const LogicalTensor tensor = {
      "x",
      {3, 3},
      {Sharded("tp", {ShardStep::PaddedBlock(0)}), Sharded("dp", {ShardStep::PaddedBlock(1)})}};
  EXPECT_THAT(Cover(tensor, mesh), Each(1));
  EXPECT_THAT(IndicesOf(tensor, mesh, 3), ElementsAre(8, -1, -1, -1));
}

// K/V heads of 2 groups on 4 ranks: two ranks hold each.
TEST(ShardStepExamplesTest, RowsMayOverlap) {
  const Mesh mesh = MeshOf(4, 1);
  const LogicalTensor tensor = {
      "x", {4, 2}, {Sharded("tp", {ShardStep::Rows(0, {{0, 1}, {0, 1}, {2, 3}, {2, 3}})})}};
  EXPECT_THAT(Cover(tensor, mesh), Each(2));
  EXPECT_EQ(IndicesOf(tensor, mesh, 0), IndicesOf(tensor, mesh, 1));
  EXPECT_THAT(IndicesOf(tensor, mesh, 3), ElementsAre(4, 5, 6, 7));
}

TEST(PieceOfTest, UnlistedAndPartialAxesReplicate) {
  const Mesh mesh = MeshOf(2, 3);
  const LogicalTensor tensor = {"x", {2, 3}, {Partial("tp")}};
  EXPECT_THAT(Cover(tensor, mesh), Each(6));
  for (int rank = 0; rank < 6; ++rank) EXPECT_TRUE(PieceOf(tensor, mesh, rank).whole);
}

TEST(PieceOfTest, ProductOfAxesCutsByThePositionInItsGroup) {
  const Mesh mesh = MeshOf(2, 3, 2);
  const LogicalTensor tensor = Vector(6, ShardStep::Block(0), "dp-cp");
  EXPECT_THAT(Cover(tensor, mesh), Each(2));
  for (int rank = 0; rank < 12; ++rank) {
    EXPECT_THAT(IndicesOf(tensor, mesh, rank),
                ElementsAre(mesh.GroupOf("dp-cp", rank).IndexOf(rank)));
  }
}

TEST(PieceOfTest, ScalarsAndEmptyTensors) {
  const Mesh mesh = MeshOf(2, 1);
  const LocalPiece scalar = PieceOf({"x", {}, {}}, mesh, 1);
  EXPECT_THAT(scalar.global_index, ElementsAre(0));
  EXPECT_TRUE(scalar.local_shape.empty());
  EXPECT_TRUE(scalar.whole);
  const LocalPiece empty = PieceOf({"x", {0, 4}, {Sharded("tp", {ShardStep::Block(1)})}}, mesh, 1);
  EXPECT_TRUE(empty.global_index.empty());
  EXPECT_EQ(empty.local_shape, (Shape{0, 2}));
  EXPECT_THAT(
      IndicesOf({"x", {}, {Sharded("tp", {ShardStep::Flatten(), ShardStep::Range({0, 0, 1})})}},
                mesh, 1),
      ElementsAre(0));
}

TEST(PieceOfTest, WholeMeansAllAndInOrder) {
  const Mesh mesh = MeshOf(2, 1);
  const auto whole = [&](ShardStep step, int rank) {
    return PieceOf(Vector(4, std::move(step)), mesh, rank).whole;
  };
  EXPECT_FALSE(whole(ShardStep::Block(0), 0));
  EXPECT_TRUE(whole(ShardStep::Rows(0, {{0, 1, 2, 3}, {1, 0, 2, 3}}), 0));
  EXPECT_FALSE(whole(ShardStep::Rows(0, {{0, 1, 2, 3}, {1, 0, 2, 3}}), 1));
  EXPECT_FALSE(whole(ShardStep::Rows(0, {{0, 2, 1, 3}, {}}), 0));
  EXPECT_TRUE(whole(ShardStep::Range({0, 4, 4}), 0));
  EXPECT_FALSE(whole(ShardStep::Range({0, 5, 5}), 0)) << "one element is padding";
}

// Against the definition, on random nests of cuts: global index = sum of position times stride.
TEST(PieceOfTest, MatchesTheDefinitionOnRandomNests) {
  const RandomStream random = DataStream(1, "nests");
  const Mesh mesh = MeshOf(2, 2, 2);
  uint64_t draw = 0;
  for (int round = 0; round < 200; ++round) {
    const Shape shape = {16, 32, 16};
    LogicalTensor tensor = {"x", shape, {}};
    Shape left = shape;
    std::vector<std::vector<std::vector<int64_t>>> positions(8);  // by rank and dimension
    for (auto& of_rank : positions) {
      for (int64_t extent : shape) {
        of_rank.emplace_back(static_cast<size_t>(extent));
        std::iota(of_rank.back().begin(), of_rank.back().end(), 0);
      }
    }
    for (const char* axis : {"tp", "dp", "cp"}) {
      const size_t d = random.Bits(draw++) % 3;
      const bool zigzag = random.Bits(draw++) % 2 == 0;
      tensor.placements.push_back(
          Sharded(axis, {zigzag ? ShardStep::ZigZag(static_cast<int64_t>(d))
                                : ShardStep::Block(static_cast<int64_t>(d))}));
      for (int rank = 0; rank < 8; ++rank) {
        const int64_t part = mesh.CoordinateOf(rank, axis);
        std::vector<int64_t> kept;
        for (int64_t i = 0; i < left[d]; ++i) {
          const int64_t quarter = i * 4 / left[d];
          const int64_t owner = zigzag ? (quarter == 0 || quarter == 3 ? 0 : 1) : quarter / 2;
          if (owner == part) kept.push_back(positions[rank][d][i]);
        }
        positions[rank][d] = kept;
      }
      left[d] /= 2;
    }
    for (int rank = 0; rank < 8; ++rank) {
      std::vector<int64_t> expected;
      for (int64_t i : positions[rank][0]) {
        for (int64_t j : positions[rank][1]) {
          for (int64_t k : positions[rank][2]) expected.push_back((i * 32 + j) * 16 + k);
        }
      }
      ASSERT_EQ(IndicesOf(tensor, mesh, rank), expected) << "round " << round << " rank " << rank;
    }
  }
}

TEST(PieceOfTest, CutsThatDoNotFitNameTensorAxisAndExtent) {
  const Mesh mesh = MeshOf(2, 1);
  const auto refuses = [&](ShardStep step, const auto& matcher) {
    EXPECT_THAT(
        [&] {
          PieceOf({"w", {7, 4}, {Sharded("tp", {step})}}, mesh, 0);
        },
        ThrowsMessage<InvalidArgument>(AllOf(HasSubstr("tensor w"), HasSubstr("tp"), matcher)));
  };
  refuses(ShardStep::Block(0), HasSubstr("extent 7"));
  refuses(ShardStep::Segments(1, 4), HasSubstr("extent 4"));
  refuses(ShardStep::ZigZag(0), HasSubstr("extent 7"));
  refuses(ShardStep::Block(2), HasSubstr("dimension 2 of 2"));
  refuses(ShardStep::Block(-3), HasSubstr("dimension -3 of 2"));
  refuses(ShardStep::Rows(0, {{0}}), HasSubstr("rows for 1 parts"));
  refuses(ShardStep::Rows(0, {{7}, {0}}), HasSubstr("row 7"));
  refuses(ShardStep::Rows(0, {{-1}, {0}}), HasSubstr("row -1"));
  refuses(ShardStep::Range({0, 1, 2}), HasSubstr("flattening"));
  const auto refuses_range = [&](std::vector<int64_t> offsets) {
    const LogicalTensor tensor = {
        "w", {4}, {Sharded("tp", {ShardStep::Flatten(), ShardStep::Range(offsets)})}};
    EXPECT_THAT([&] { PieceOf(tensor, mesh, 0); },
                ThrowsMessage<InvalidArgument>(HasSubstr("offsets")));
  };
  refuses_range({0, 4});
  refuses_range({});
  refuses_range({0, 3, 2});
  refuses_range({-1, 3, 4});
  EXPECT_THROW(ShardStep::Segments(0, 0), InvalidArgument);
  EXPECT_THROW(PieceOf(Vector(4, ShardStep::Block(0), "xp"), mesh, 0), InvalidArgument);
}

TEST(IsPartialOverTest, AsksForEveryAxisOfAProduct) {
  const LogicalTensor tensor = {"x", {4}, {Sharded("tp", {ShardStep::Block(0)}), Partial("dp-cp")}};
  EXPECT_TRUE(IsPartialOver(tensor, "dp"));
  EXPECT_TRUE(IsPartialOver(tensor, "cp"));
  EXPECT_TRUE(IsPartialOver(tensor, "cp-dp"));
  EXPECT_FALSE(IsPartialOver(tensor, "tp"));
  EXPECT_FALSE(IsPartialOver(tensor, "tp-dp"));
  EXPECT_FALSE(IsPartialOver(tensor, "pp"));
}

}  // namespace
}  // namespace plumbline
