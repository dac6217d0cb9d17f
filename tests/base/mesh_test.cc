#include "base/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace plumbline {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

ParallelConfig Dense(int tp, int cp, int dp, int pp, const std::string& order) {
  ParallelConfig config;
  config.tp = tp;
  config.cp = cp;
  config.dp = dp;
  config.pp = pp;
  config.order = order;
  return config;
}

// Every permutation of the five axes.
std::vector<std::string> AllOrders() {
  std::vector<std::string> axes = {"cp", "dp", "ep", "pp", "tp"};
  std::vector<std::string> orders;
  do {
    orders.push_back(axes[0] + "-" + axes[1] + "-" + axes[2] + "-" + axes[3] + "-" + axes[4]);
  } while (std::next_permutation(axes.begin(), axes.end()));
  return orders;
}

std::vector<std::vector<int>> MembersOf(const Mesh& mesh, const std::string& axes) {
  std::vector<std::vector<int>> result;
  for (const Group& group : mesh.Groups(axes)) result.push_back(group.members);
  return result;
}

// All products of at least one axis.
std::vector<std::string> Products(const std::vector<std::string>& axes) {
  std::vector<std::string> products;
  for (size_t mask = 1; mask < size_t{1} << axes.size(); ++mask) {
    std::string product;
    for (size_t i = 0; i < axes.size(); ++i) {
      if ((mask >> i & 1) != 0) product += (product.empty() ? "" : "-") + axes[i];
    }
    products.push_back(product);
  }
  return products;
}

bool Names(const std::string& product, const std::string& axis) {
  return ("-" + product + "-").find("-" + axis + "-") != std::string::npos;
}

// Groups of `product` partition the ranks, and a group is exactly the ranks that agree on every
// other axis of the grid.
void ExpectPartition(const Mesh& mesh, const std::vector<std::string>& grid,
                     const std::string& product) {
  std::vector<int> seen(mesh.world_size(), 0);
  int previous_first = -1;
  size_t expected_size = 1;
  for (const std::string& axis : grid) {
    if (Names(product, axis)) expected_size *= mesh.extent(axis);
  }
  for (const Group& group : mesh.Groups(product)) {
    EXPECT_EQ(group.name, product);
    EXPECT_EQ(group.hash, HashOfMembers(group.members));
    EXPECT_EQ(group.members.size(), expected_size) << product;
    const int first = *std::min_element(group.members.begin(), group.members.end());
    EXPECT_EQ(first, group.members[0]) << product;
    EXPECT_GT(first, previous_first) << product;
    previous_first = first;
    for (int i = 0; i < group.size(); ++i) {
      const int rank = group.members[i];
      ++seen[rank];
      EXPECT_EQ(group.IndexOf(rank), i);
      EXPECT_EQ(&mesh.GroupOf(product, rank), &group);
      for (const std::string& axis : grid) {
        if (!Names(product, axis)) {
          EXPECT_EQ(mesh.CoordinateOf(rank, axis), mesh.CoordinateOf(first, axis)) << product;
        }
      }
    }
  }
  EXPECT_THAT(seen, ::testing::Each(1)) << product;
}

// The product of the extents of the axes that are faster than `wanted`.
int StrideOf(const std::string& wanted, const std::string& order,
             const std::map<std::string, int>& extents) {
  int stride = 1;
  for (size_t at = 0; order.substr(at, 2) != wanted; at += 3) {
    const auto found = extents.find(order.substr(at, 2));
    if (found != extents.end()) stride *= found->second;
  }
  return stride;
}

class MeshTest : public ::testing::TestWithParam<std::string> {};

TEST_P(MeshTest, RankAndCoordinatesAreInverse) {
  for (int tp = 1; tp <= 8; ++tp) {
    for (int cp = 1; tp * cp <= 8; ++cp) {
      for (int dp = 1; tp * cp * dp <= 8; ++dp) {
        for (int pp = 1; tp * cp * dp * pp <= 8; ++pp) {
          const Mesh mesh(Dense(tp, cp, dp, pp, GetParam()));
          std::set<Coordinates> seen;
          for (int rank = 0; rank < mesh.world_size(); ++rank) {
            Coordinates dense;
            for (const char* axis : {"tp", "cp", "dp", "pp"}) {
              dense[axis] = mesh.CoordinateOf(rank, axis);
              EXPECT_LT(dense[axis], mesh.extent(axis));
              EXPECT_EQ(dense[axis], mesh.CoordinatesOf(rank).at(axis));
            }
            EXPECT_EQ(mesh.RankOf(dense), rank);
            seen.insert(dense);
          }
          EXPECT_EQ(static_cast<int>(seen.size()), tp * cp * dp * pp);
        }
      }
    }
  }
}

TEST_P(MeshTest, GroupsOfEveryProductPartitionTheRanks) {
  const std::vector<std::string> grid = {"tp", "cp", "dp", "pp"};
  for (int tp : {1, 2}) {
    for (int cp : {1, 2}) {
      for (int dp : {1, 3}) {
        for (int pp : {1, 2}) {
          const Mesh mesh(Dense(tp, cp, dp, pp, GetParam()));
          for (const std::string& product : Products(grid)) ExpectPartition(mesh, grid, product);
        }
      }
    }
  }
}

// The reduction order, and the order of gathered shards.
TEST_P(MeshTest, MembersAreOrderedByTheMeshFastestAxisFirst) {
  const Mesh mesh(Dense(2, 3, 2, 2, GetParam()));
  for (const std::string& product : Products({"tp", "cp", "dp", "pp"})) {
    for (const Group& group : mesh.Groups(product)) {
      EXPECT_TRUE(std::is_sorted(group.members.begin(), group.members.end())) << product;
      for (int i = 0; i < group.size(); ++i) {
        int expected = 0;
        int stride = 1;
        for (size_t at = 0; at < GetParam().size(); at += 3) {
          const std::string axis = GetParam().substr(at, 2);
          if (!Names(product, axis)) continue;
          expected += mesh.CoordinateOf(group.members[i], axis) * stride;
          stride *= mesh.extent(axis);
        }
        EXPECT_EQ(expected, i) << product;
      }
    }
  }
}

TEST_P(MeshTest, ExpertGridPartitionsTheSameRanksOrIsRefused) {
  const std::vector<std::string> grid = {"etp", "ep", "edp", "pp"};
  int refused = 0;
  for (int etp : {1, 2}) {
    for (int ep : {1, 2, 4}) {
      for (int pp : {1, 2}) {
        ParallelConfig config = Dense(2, 1, 4, pp, GetParam());
        config.etp = etp;
        config.ep = ep;
        const int expert_dp = 2 * 4 * pp / (etp * ep * pp);
        const bool same_stages =
            pp == 1 || StrideOf("pp", GetParam(), {{"tp", 2}, {"dp", 4}}) ==
                           StrideOf("pp", GetParam(), {{"tp", etp}, {"ep", ep}, {"dp", expert_dp}});
        try {
          const Mesh mesh(config);
          EXPECT_TRUE(same_stages) << etp << " " << ep << " " << pp;
          EXPECT_EQ(mesh.extent("edp") * mesh.extent("ep") * mesh.extent("etp") * pp,
                    mesh.world_size());
          for (const std::string& product : Products(grid)) ExpectPartition(mesh, grid, product);
        } catch (const InvalidArgument&) {
          ++refused;
          EXPECT_FALSE(same_stages) << etp << " " << ep << " " << pp;
        }
      }
    }
  }
  // Without a pipeline nothing is refused, and without experts' own shape nothing either.
  EXPECT_LE(refused, 5);
}

INSTANTIATE_TEST_SUITE_P(Orders, MeshTest, ::testing::ValuesIn(AllOrders()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(MeshExamplesTest, TensorParallelRanksAreNeighboursByDefault) {
  const Mesh mesh(Dense(2, 1, 2, 2, "tp-cp-ep-dp-pp"));
  EXPECT_THAT(MembersOf(mesh, "tp"), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3),
                                                 ElementsAre(4, 5), ElementsAre(6, 7)));
  EXPECT_THAT(MembersOf(mesh, "dp"), ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3),
                                                 ElementsAre(4, 6), ElementsAre(5, 7)));
  EXPECT_THAT(MembersOf(mesh, "pp"), ElementsAre(ElementsAre(0, 4), ElementsAre(1, 5),
                                                 ElementsAre(2, 6), ElementsAre(3, 7)));
}

TEST(MeshExamplesTest, PipelineBeforeDataMovesTheDataPartner) {
  const Mesh mesh(Dense(2, 1, 2, 2, "tp-pp-dp"));
  EXPECT_THAT(mesh.GroupOf("dp", 0).members, ElementsAre(0, 4));
  EXPECT_THAT(mesh.GroupOf("pp", 0).members, ElementsAre(0, 2));
}

// The ranks of Megatron-Core's documentation: 16 of them, tp 2, pp 4.
TEST(MeshExamplesTest, MegatronsSixteenRanks) {
  const Mesh mesh(Dense(2, 1, 2, 4, "tp-cp-ep-dp-pp"));
  EXPECT_THAT(mesh.GroupOf("dp", 5).members, ElementsAre(5, 7));
  EXPECT_THAT(mesh.GroupOf("tp", 9).members, ElementsAre(8, 9));
  EXPECT_THAT(mesh.GroupOf("pp", 1).members, ElementsAre(1, 5, 9, 13));
  EXPECT_THAT(mesh.GroupOf("tp-pp", 0).members, ElementsAre(0, 1, 4, 5, 8, 9, 12, 13));
}

TEST(MeshExamplesTest, ExpertsSplitTheDataParallelRanks) {
  ParallelConfig config = Dense(2, 1, 4, 1, "tp-cp-ep-dp-pp");
  config.ep = 2;
  config.etp = 1;
  const Mesh mesh(config);
  EXPECT_THAT(MembersOf(mesh, "ep"), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3),
                                                 ElementsAre(4, 5), ElementsAre(6, 7)));
  EXPECT_THAT(MembersOf(mesh, "edp"),
              ElementsAre(ElementsAre(0, 2, 4, 6), ElementsAre(1, 3, 5, 7)));
  EXPECT_EQ(mesh.extent("dp"), 4);
  EXPECT_EQ(mesh.extent("edp"), 4);
}

TEST(MeshRulesTest, SpellingOfAProductDoesNotMatter) {
  const Mesh mesh(Dense(2, 2, 2, 2, "tp-cp-ep-dp-pp"));
  EXPECT_EQ(MembersOf(mesh, "dp-cp"), MembersOf(mesh, "cp-dp"));
  EXPECT_EQ(MembersOf(mesh, "tp-dp-cp"), MembersOf(mesh, "cp-tp-dp"));
  EXPECT_EQ(MembersOf(mesh, "pp-dp-cp-tp"), MembersOf(mesh, "world"));
  EXPECT_EQ(mesh.GroupOf("dp-cp", 0).name, "dp-cp");
}

TEST(MeshRulesTest, EmbeddingGroupsAreFirstAndLastStage) {
  const Mesh mesh(Dense(2, 1, 1, 4, "tp-cp-ep-dp-pp"));
  EXPECT_THAT(MembersOf(mesh, "embedding"), ElementsAre(ElementsAre(0, 6), ElementsAre(1, 7)));
  EXPECT_THAT(MembersOf(mesh, "position_embedding"), ElementsAre(ElementsAre(0), ElementsAre(1)));
  EXPECT_TRUE(mesh.HasGroup("embedding", 6));
  EXPECT_FALSE(mesh.HasGroup("embedding", 3));
  EXPECT_FALSE(mesh.HasGroup("position_embedding", 6));
  EXPECT_THAT([&] { mesh.GroupOf("embedding", 3); },
              ThrowsMessage<InvalidArgument>(AllOf(HasSubstr("rank 3"), HasSubstr("embedding"))));
  const Mesh flat(Dense(2, 1, 1, 1, "tp-cp-ep-dp-pp"));
  EXPECT_THAT(MembersOf(flat, "embedding"), ElementsAre(ElementsAre(0), ElementsAre(1)));
}

TEST(MeshRulesTest, EveryListedGroupExists) {
  for (const std::string& order : AllOrders()) {
    const Mesh mesh(Dense(2, 2, 1, 2, order));
    for (const std::string& name : mesh.GroupNames()) EXPECT_FALSE(mesh.Groups(name).empty());
  }
}

// Without experts nothing needs the expert grid, so that any order is allowed.
TEST(MeshRulesTest, ConflictingExpertGridIsAbsentWithoutExpertsAndRefusedWithThem) {
  ParallelConfig config = Dense(2, 2, 2, 2, "tp-cp-pp-dp");
  const Mesh mesh(config);
  EXPECT_THAT([&] { mesh.extent("edp"); }, ThrowsMessage<InvalidArgument>(HasSubstr("expert")));
  EXPECT_EQ(mesh.CoordinatesOf(0).count("edp"), 0u);
  EXPECT_EQ(Mesh(Dense(2, 2, 2, 2, "tp-cp-dp-pp")).CoordinatesOf(0).count("edp"), 1u);
  config.order = "tp-cp-ep-pp-dp";
  config.ep = 2;
  config.etp = 1;
  EXPECT_THAT([&] { Mesh refused(config); },
              ThrowsMessage<InvalidArgument>(HasSubstr("pipeline stages")));
  config.etp = 2;  // 4 ranks lie between two stages of either grid
  EXPECT_EQ(Mesh(config).extent("edp"), 2);
}

TEST(MeshRulesTest, BadConfigurationsAreRefused) {
  const auto refuses = [](ParallelConfig config, const std::string& what) {
    EXPECT_THAT([&] { Mesh mesh(config); }, ThrowsMessage<InvalidArgument>(HasSubstr(what)));
  };
  refuses(Dense(0, 1, 1, 1, "tp-cp-ep-dp-pp"), "tp size 0");
  refuses(Dense(1, 1, -2, 1, "tp-cp-ep-dp-pp"), "dp size -2");
  refuses(Dense(2, 1, 1, 1, "tp-tp"), "twice");
  refuses(Dense(2, 1, 1, 1, "tp-xp"), "'xp'");
  refuses(Dense(2, 1, 1, 1, ""), "''");
  refuses(Dense(2, 1, 1, 1, "tp-"), "''");
  refuses(Dense(2, 1, 2, 1, "tp-pp"), "leaves out dp");
  refuses(Dense(2, 1, 2, 1, "dp"), "leaves out tp");
  refuses(Dense(1 << 20, 1 << 20, 1 << 20, 1 << 20, "tp-cp-ep-dp-pp"), "65536");
  ParallelConfig config = Dense(2, 1, 3, 1, "tp-cp-ep-dp-pp");
  config.ep = 4;
  refuses(config, "no multiple");
}

TEST(MeshRulesTest, BadNamesAndRanksAreRefused) {
  const Mesh mesh(Dense(2, 1, 2, 1, "tp-cp-ep-dp-pp"));
  EXPECT_THROW(mesh.Groups("tp-ep"), InvalidArgument);
  EXPECT_THROW(mesh.Groups("tp-tp"), InvalidArgument);
  EXPECT_THROW(mesh.Groups("xp"), InvalidArgument);
  EXPECT_THROW(mesh.Groups(""), InvalidArgument);
  EXPECT_THROW(mesh.extent("world"), InvalidArgument);
  EXPECT_THROW(mesh.CoordinateOf(4, "tp"), Internal);
  EXPECT_THROW(mesh.CoordinateOf(-1, "tp"), Internal);
  EXPECT_THROW(mesh.HasGroup("tp", 4), Internal);
  EXPECT_THROW(mesh.RankOf({{"tp", 2}}), InvalidArgument);
  EXPECT_THROW(mesh.RankOf({{"ep", 0}}), InvalidArgument);
  EXPECT_EQ(mesh.RankOf({{"dp", 1}}), 2);
}

TEST(GroupTest, HashKnowsMembersAndOrder) {
  EXPECT_NE(HashOfMembers({0, 1}), HashOfMembers({1, 0}));
  EXPECT_NE(HashOfMembers({0, 1}), HashOfMembers({0, 2}));
  EXPECT_NE(HashOfMembers({0, 1}), HashOfMembers({0, 1, 2}));
  EXPECT_EQ(HashOfMembers({0, 1}), HashOfMembers({0, 1}));
}

TEST(GroupTest, LongListsAreShortened) {
  EXPECT_EQ(ToString(Group{"tp", {0, 1}, 0}), "tp{0,1}");
  const Mesh mesh(Dense(1, 1, 4096, 1, "tp-cp-ep-dp-pp"));
  EXPECT_EQ(ToString(mesh.GroupOf("world", 7)), "world{0,1,..,4095}");
}

TEST(GroupTest, StrangersHaveNoIndex) { EXPECT_EQ((Group{"tp", {4, 2}, 0}.IndexOf(3)), -1); }

}  // namespace
}  // namespace plumbline
