#include "cli/verify_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace plumbline {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string RunTextOf(std::vector<std::string> words) {
  words.insert(words.begin(), "verify");
  return RunText(MakeRunOptions(ParseCommandLine(words)), 10);
}

TEST(VerifyTextTest, GradientsAreDescribedWhenTheyLieInBuffers) {
  EXPECT_THAT(RunTextOf({}), Not(HasSubstr("gradients ")));
  EXPECT_THAT(RunTextOf({"--use-distributed-optimizer"}),
              HasSubstr("\ngradients f64 in buffers; optim; reduced after the backward\n"));
  EXPECT_THAT(RunTextOf({"--bf16", "--overlap-grad-reduce", "--ddp-bucket-size", "500",
                         "--ddp-average-in-collective"}),
              HasSubstr("\ngradients f32 in buffers, buckets of at least 500 elements; no_shard; "
                        "reduced during the backward;\n          averaged in the collective\n"));
  EXPECT_THAT(RunTextOf({"--use-megatron-fsdp", "--data-parallel-sharding-strategy", "optim_grads",
                         "--overlap-grad-reduce", "--overlap-param-gather"}),
              HasSubstr("a bucket for each unit; optim_grads; reduced during the backward"));
  EXPECT_THAT(RunTextOf({"--dp", "4", "--use-distributed-optimizer",
                         "--num-distributed-optimizer-instances", "2"}),
              HasSubstr("optim in 2 instances"));
}

}  // namespace
}  // namespace plumbline
