#include "cli/launch_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace plumbline {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(LaunchLineTest, LeavesArgumentsAlone) {
  const LaunchLine line = StripLauncher({"--tp", "2", "--sp", "stray"});
  EXPECT_THAT(line.arguments, ElementsAre("--tp", "2", "--sp", "stray"));
  EXPECT_EQ(line.world_size, 0);
  EXPECT_THAT(StripLauncher({}).arguments, IsEmpty());
}

TEST(LaunchLineTest, TakesOutTorchrunAndLearnsTheWorldSize) {
  const LaunchLine line = StripLauncher({"--json", "torchrun", "--nproc-per-node", "8", "--nnodes",
                                         "2", "--tee", "3", "/src/pretrain_gpt.py", "--tp", "4"});
  EXPECT_THAT(line.arguments, ElementsAre("--json", "--tp", "4"));
  EXPECT_EQ(line.world_size, 16);
}

TEST(LaunchLineTest, ReadsUnderscoresEqualsAndSettings) {
  const LaunchLine line =
      StripLauncher({"CUDA_DEVICE_MAX_CONNECTIONS=1", "python3", "-m", "torch.distributed.run",
                     "--nproc_per_node=4", "pretrain_gpt.py", "--swiglu"});
  EXPECT_THAT(line.arguments, ElementsAre("--swiglu"));
  EXPECT_EQ(line.world_size, 4);
}

TEST(LaunchLineTest, AnElasticNumberOfNodesCountsAsOne) {
  EXPECT_EQ(
      StripLauncher({"torchrun", "--nnodes", "1:4", "--nproc-per-node", "4", "a.py"}).world_size,
      4);
  EXPECT_EQ(StripLauncher({"torchrun", "--nproc-per-node", "gpu", "a.py"}).world_size, 0);
}

TEST(LaunchLineTest, TakesOutABareScriptOnce) {
  EXPECT_THAT(StripLauncher({"pretrain_gpt.py", "--sp", "other.py"}).arguments,
              ElementsAre("--sp", "other.py"));
}

TEST(LaunchLineTest, ValuesAreNoLaunchers) {
  EXPECT_THAT(
      StripLauncher({"--data", "train.py", "--data-path", "python", "x.py", "--sp"}).arguments,
      ElementsAre("--data", "train.py", "--data-path", "python", "x.py", "--sp"));
  EXPECT_THAT(StripLauncher({"--data"}).arguments, ElementsAre("--data"));
}

TEST(LaunchLineTest, ALauncherWithoutAScriptIsRefused) {
  EXPECT_THROW(StripLauncher({"torchrun", "--nproc-per-node", "8"}), InvalidArgument);
}

}  // namespace
}  // namespace plumbline
