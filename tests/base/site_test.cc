#include "base/site.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/error.h"

namespace plumbline {
namespace {

Site Example() {
  Site site;
  site.step = 1;
  site.microbatch = 0;
  site.layer = 3;
  site.phase = Phase::kForward;
  site.tensor = "decoder.layers.3.mlp.linear_fc1";
  return site;
}

TEST(SiteTest, ReadsFromStepToQuantity) {
  EXPECT_EQ(ToString(Example()),
            "step 1 microbatch 0 forward decoder.layers.3.mlp.linear_fc1 value");
}

TEST(SiteTest, WhatDoesNotApplyIsLeftOut) {
  Site site;
  site.phase = Phase::kNorm;
  site.quantity = Quantity::kCounter;
  EXPECT_EQ(ToString(site), "norm counter");
  site.chunk = 1;
  site.layer = 2;
  site.tensor = "mlp";
  EXPECT_EQ(ToString(site), "chunk 1 layer 2 norm mlp counter");
}

TEST(SiteTest, EveryFieldCountsInEqualityAndHash) {
  std::vector<Site> sites(8, Example());
  sites[1].step = 2;
  sites[2].microbatch = 1;
  sites[3].chunk = 0;
  sites[4].layer = 4;
  sites[5].phase = Phase::kBackward;
  sites[6].quantity = Quantity::kGradient;
  sites[7].tensor += "x";
  const std::unordered_set<Site, SiteHash> distinct(sites.begin(), sites.end());
  EXPECT_EQ(distinct.size(), sites.size());
  std::set<size_t> hashes;
  for (const Site& site : sites) hashes.insert(SiteHash()(site));
  EXPECT_EQ(hashes.size(), sites.size());
  EXPECT_EQ(SiteHash()(Example()), SiteHash()(Example()));
}

TEST(SiteTest, NamesAreDistinctAndOthersRefused) {
  std::set<std::string> names;
  for (int i = 0; i <= static_cast<int>(Phase::kLoad); ++i) {
    names.insert(std::string(Name(static_cast<Phase>(i))));
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(Phase::kLoad) + 1);
  EXPECT_EQ(Name(Phase::kLoad), "load");
  names.clear();
  for (int i = 0; i <= static_cast<int>(Quantity::kCounter); ++i) {
    names.insert(std::string(Name(static_cast<Quantity>(i))));
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(Quantity::kCounter) + 1);
  EXPECT_EQ(Name(Quantity::kCounter), "counter");
  EXPECT_THROW(Name(static_cast<Phase>(99)), Internal);
}

}  // namespace
}  // namespace plumbline
