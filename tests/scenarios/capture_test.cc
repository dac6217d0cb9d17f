#include "scenarios/capture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plumbline {
namespace {

using ::testing::ElementsAre;

Site At(const std::string& tensor) {
  Site site;
  site.step = 1;
  site.tensor = tensor;
  return site;
}

Tensor F64(const std::vector<double>& values) {
  return Tensor::FromVector(Context{}, {static_cast<int64_t>(values.size())}, values);
}

// Says nothing to anybody.
class QuietCommunicator : public Communicator {
 public:
  explicit QuietCommunicator(int rank) : rank_(rank) {}
  std::shared_ptr<Work> Issue(const CollectiveCall& /*call*/) override {
    ++calls;
    return nullptr;
  }
  int global_rank() const override { return rank_; }

  int calls = 0;

 private:
  int rank_;
};

TEST(CaptureTest, KeepsCopiesAtItsSiteByRank) {
  Capture capture(At("a"));
  ObservedLayout layout;
  Tensor local = F64({1, 2});
  capture.ProbeOf(2).Observe(At("a"), layout, local);
  capture.ProbeOf(0).Observe(At("a"), layout, local);
  capture.ProbeOf(1).Observe(At("b"), layout, local);
  capture.ProbeOf(1).ObserveCounter(At("a"), 3);
  local.FillZero();
  const std::vector<CapturedTensor> tensors = capture.TakeTensors();
  ASSERT_EQ(tensors.size(), 2U);
  EXPECT_EQ(tensors[0].rank, 0);
  EXPECT_EQ(tensors[1].rank, 2);
  EXPECT_THAT(tensors[1].local.ToVector<double>(), ElementsAre(1, 2));
}

TEST(CaptureTest, KeepsWhatGoesIntoCollectivesAndPassesThemOn) {
  Capture capture(At("a"));
  QuietCommunicator quiet(3);
  const auto watched = capture.Watch(quiet);
  CollectiveCall call;
  call.op = CollectiveOp::kAllReduce;
  call.input = F64({4});
  for (const char* tensor : {"b", "a", "a"}) {
    call.site = At(tensor);
    watched->Issue(call);
    call.input.FillZero();
  }
  EXPECT_EQ(quiet.calls, 3);
  const std::vector<CapturedCall> calls = capture.TakeCalls();
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_EQ(calls[0].rank, 3);
  EXPECT_EQ(calls[0].number, 0);
  EXPECT_EQ(calls[1].number, 1);
  EXPECT_THAT(calls[0].input.ToVector<double>(), ElementsAre(0));
}

TEST(CaptureTest, LayerAndChunkDoNotTellSitesApart) {
  Capture capture(At("a"));
  Site site = At("a");
  site.layer = 2;
  site.chunk = 1;
  capture.ProbeOf(0).Observe(site, ObservedLayout{}, F64({1}));
  EXPECT_EQ(capture.TakeTensors().size(), 1U);
}

}  // namespace
}  // namespace plumbline
