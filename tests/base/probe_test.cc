#include "base/probe.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace plumbline {
namespace {

class CountingProbe : public Probe {
 public:
  CountingProbe(int* observed, int* destroyed) : observed_(observed), destroyed_(destroyed) {}
  ~CountingProbe() override { ++*destroyed_; }
  void Observe(const Site&, const ObservedLayout& layout, const Tensor& local) override {
    EXPECT_EQ(local.shape(), layout.piece.local_shape);
    ++*observed_;
  }
  void ObserveCounter(const Site&, int64_t) override { ++*observed_; }

 private:
  int* observed_;
  int* destroyed_;
};

TEST(ProbeTest, ImplementationIsReachedAndDestroyedThroughTheInterface) {
  int observed = 0;
  int destroyed = 0;
  std::unique_ptr<Probe> probe = std::make_unique<CountingProbe>(&observed, &destroyed);
  ObservedLayout layout;
  layout.tensor = {"x", {4, 3}, {Sharded("tp", {ShardStep::Block(0)})}};
  ParallelConfig config;
  config.tp = 2;
  layout.piece = PieceOf(layout.tensor, Mesh(config), 1);
  probe->Observe(Site(), layout, Tensor::Zeros(Context{}, DType::kF64, {2, 3}));
  probe->ObserveCounter(Site(), 3);
  probe.reset();
  EXPECT_EQ(observed, 2);
  EXPECT_EQ(destroyed, 1);
}

TEST(ReferenceSinkTest, KeepsTheOrderOfProduction) {
  class Sink : public ReferenceSink {
   public:
    void Record(const Site& site, Tensor) override { names.push_back(site.tensor); }
    void RecordCounter(const Site& site, int64_t) override { names.push_back(site.tensor); }
    std::vector<std::string> names;
  };
  Sink sink;
  ReferenceSink& interface = sink;
  Site site;
  site.tensor = "a";
  interface.Record(site, Tensor());
  site.tensor = "b";
  interface.RecordCounter(site, 1);
  EXPECT_EQ(sink.names, (std::vector<std::string>{"a", "b"}));
}

}  // namespace
}  // namespace plumbline
