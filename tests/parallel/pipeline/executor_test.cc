#include "parallel/pipeline/executor.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/mesh.h"
#include "parallel/comm/world.h"
#include "parallel/pipeline/schedule_builder.h"

namespace plumbline {
namespace {

// Each chunk adds its virtual index + 1 to what it gets, and multiplies gradients by 3: after v
// chunks an activation tells which chunks it went through, and a gradient how many.
class Adder : public StageWork {
 public:
  Adder(const ScheduleConfig& config, int stage) : config_(config), stage_(stage) {}

  Tensor Forward(int chunk, int microbatch, const Tensor& input) override {
    const int index = config_.VirtualIndex(stage_, chunk);
    EXPECT_EQ(input.defined(), index > 0);
    const double in = input.defined() ? input.at<double>({0}) : 1000.0 * microbatch;
    outputs.push_back(in + index + 1);
    EXPECT_EQ(outputs.back(), 1000.0 * microbatch + (index + 1) * (index + 2) / 2);
    return Tensor::FromVector<double>(Context{}, {1}, {outputs.back()});
  }
  Tensor Backward(int chunk, int microbatch, const Tensor& doutput) override {
    Tensor dinput = BackwardInput(chunk, microbatch, doutput);
    BackwardWeight(chunk, microbatch);
    return dinput;
  }
  Tensor BackwardInput(int chunk, int microbatch, const Tensor& doutput) override {
    const int index = config_.VirtualIndex(stage_, chunk);
    const int behind = config_.virtual_stages() - 1 - index;
    double gradient = doutput.defined() ? doutput.at<double>({0}) : microbatch + 1.0;
    for (int i = 0; i < behind; ++i) gradient /= 3;
    EXPECT_EQ(gradient, microbatch + 1.0);
    for (int i = 0; i < behind + 1; ++i) gradient *= 3;
    return Tensor::FromVector<double>(Context{}, {1}, {gradient});
  }
  void BackwardWeight(int, int) override { ++finished; }

  std::vector<double> outputs;
  int finished = 0;

 private:
  ScheduleConfig config_;
  int stage_;
};

Site SiteOf(const Operation& message) {
  Site site;
  site.microbatch = message.microbatch;
  site.tensor = IsGradientMessage(message.kind) ? "gradient" : "activation";
  return site;
}

// Both ways to wait, and any interleaving of ranks.
WorldResult RunSchedule(const Schedule& schedule, Transport transport, uint64_t seed = 0,
                        OnMismatch on_mismatch = OnMismatch::kStop) {
  ParallelConfig parallel;
  parallel.pp = schedule.config.pp;
  const Mesh mesh(parallel);
  World world(
      WorldOptions{.size = parallel.pp,
                   .policy = seed == 0 ? SchedulePolicy::kRoundRobin : SchedulePolicy::kRandom,
                   .seed = seed,
                   .on_mismatch = on_mismatch});
  return world.Run([&](Rank& rank) {
    const int stage = rank.global_rank();
    Executor executor(rank.context(), rank.comm(), mesh.GroupOf("pp", stage), schedule, stage,
                      {.transport = transport, .message_shape = {1}, .dtype = DType::kF64});
    Adder work(schedule.config, stage);
    for (int step = 1; step <= 2; ++step) {
      executor.Run(work, SiteOf);
      EXPECT_EQ(work.finished,
                step * schedule.config.microbatches * schedule.config.virtual_chunks);
    }
  });
}

std::vector<ScheduleConfig> Configs() {
  std::vector<ScheduleConfig> configs;
  for (const ScheduleKind kind : kAllScheduleKinds) {
    for (int pp : {1, 2, 3, 4, 8}) {
      for (int chunks : {1, 2, 3}) {
        for (int microbatches : {1, 2, 5, 6, 8}) {
          const ScheduleConfig config = {
              .kind = kind, .pp = pp, .virtual_chunks = chunks, .microbatches = microbatches};
          try {
            Validate(config);
          } catch (const InvalidArgument&) {
            continue;
          }
          configs.push_back(config);
        }
      }
    }
  }
  return configs;
}

TEST(Executor, EverySchedulePassesEachMicrobatchThroughAllChunksAndBack) {
  ASSERT_GT(Configs().size(), 100u);
  for (const ScheduleConfig& config : Configs()) {
    SCOPED_TRACE(fmt::format("{} pp {} chunks {} microbatches {}", Name(config.kind), config.pp,
                             config.virtual_chunks, config.microbatches));
    const Schedule schedule = MakeSchedule(config);
    for (const Transport transport : {Transport::kEager, Transport::kRendezvous}) {
      for (uint64_t seed : {0, 1, 2}) {
        const WorldResult result = RunSchedule(schedule, transport, seed);
        ASSERT_TRUE(result.completed);
        ASSERT_TRUE(result.findings.empty()) << result.findings[0].message;
      }
    }
  }
}

TEST(Executor, MessagesCarryTheirLogicalId) {
  const WorldResult result = RunSchedule(
      MakeSchedule({.kind = ScheduleKind::kGpipe, .pp = 2, .microbatches = 3}), Transport::kEager);
  int sends = 0;
  for (const CollectiveRecord& record : result.records) {
    if (record.op != "send") continue;
    ++sends;
    EXPECT_EQ(record.site.tensor, record.global_rank == 0 ? "activation" : "gradient");
    EXPECT_GE(record.site.microbatch, 0);
  }
  EXPECT_EQ(sends, 2 * 2 * 3);  // steps, directions, microbatches
}

// Two stages that each send before they receive, one message after the other.
TEST(Executor, CrossedMessagesDeadlockWithTheCycle) {
  Schedule schedule =
      MakeSchedule({.kind = ScheduleKind::kOneForwardOneBackward, .pp = 2, .microbatches = 3});
  int taken_apart = 0;
  for (std::vector<Operation>& stage : schedule.stages) {
    for (size_t i = 0; i + 1 < stage.size(); ++i) {
      if (!stage[i].with_next) continue;
      stage[i].with_next = false;
      if (!IsSend(stage[i].kind)) std::swap(stage[i], stage[i + 1]);
      ++taken_apart;
    }
  }
  ASSERT_GT(taken_apart, 0);
  const WorldResult result = RunSchedule(schedule, Transport::kRendezvous);
  EXPECT_FALSE(result.completed);
  ASSERT_FALSE(result.findings.empty());
  EXPECT_EQ(result.findings[0].kind, FindingClass::kDeadlock);
  EXPECT_NE(result.findings[0].message.find("rank 0"), std::string::npos);
  EXPECT_NE(result.findings[0].message.find("rank 1"), std::string::npos);
}

TEST(Executor, AMessageToTheWrongPeerIsFound) {
  Schedule schedule =
      MakeSchedule({.kind = ScheduleKind::kOneForwardOneBackward, .pp = 4, .microbatches = 4});
  for (Operation& operation : schedule.stages[1]) {
    if (operation.kind == OperationKind::kSendForward) operation.peer_stage = 3;
  }
  const WorldResult result = RunSchedule(schedule, Transport::kRendezvous);
  EXPECT_FALSE(result.completed);
  ASSERT_FALSE(result.findings.empty());
  EXPECT_EQ(result.findings[0].kind, FindingClass::kCollectiveMismatch);
  EXPECT_THAT(result.findings[0].message, testing::HasSubstr("rank 1"));
  EXPECT_THAT(result.findings[0].message, testing::HasSubstr("rank 3"));
}

TEST(Executor, AComputationWithoutItsInputIsAnError) {
  Schedule schedule = MakeSchedule({.kind = ScheduleKind::kGpipe, .pp = 2, .microbatches = 1});
  std::erase_if(schedule.stages[1],
                [](const Operation& o) { return o.kind == OperationKind::kRecvForward; });
  EXPECT_THROW(RunSchedule(schedule, Transport::kEager), Internal);
}

}  // namespace
}  // namespace plumbline
