#include "parallel/comm/world.h"

#include <mutex>
#include <utility>

#include "base/allocator.h"
#include "base/error.h"
#include "parallel/comm/engine.h"
#include "parallel/comm/scheduler.h"

namespace plumbline {
namespace {

// A tensor refers to its allocator. Those of a world whose tensors outlive it are kept here.
void KeepForever(std::unique_ptr<Allocator[]> allocators) {
  static std::mutex mutex;
  static auto* kept = new std::vector<std::unique_ptr<Allocator[]>>();
  const std::lock_guard<std::mutex> lock(mutex);
  kept->push_back(std::move(allocators));
}

bool InUse(const Allocator& allocator) {
  for (size_t category = 0; category < kMemoryCategories; ++category) {
    if (allocator.use(static_cast<MemoryCategory>(category)).bytes_now != 0) return true;
  }
  return false;
}

class SimCommunicator final : public Communicator {
 public:
  SimCommunicator(Engine& engine, int global_rank) : engine_(engine), global_rank_(global_rank) {}
  std::shared_ptr<Work> Issue(const CollectiveCall& call) override {
    return engine_.Issue(global_rank_, call);
  }
  int global_rank() const override { return global_rank_; }

 private:
  Engine& engine_;
  int global_rank_;
};

class SimRank final : public Rank {
 public:
  SimRank(Engine& engine, int global_rank, const WorldOptions& options, const Context& context)
      : engine_(engine), options_(options), context_(context), comm_(engine, global_rank) {}
  int global_rank() const override { return comm_.global_rank(); }
  int world_size() const override { return options_.size; }
  Communicator& comm() override { return comm_; }
  const Context& context() const override { return context_; }
  const WorldOptions& options() const override { return options_; }
  void Yield() override { engine_.Yield(global_rank()); }

 private:
  Engine& engine_;
  const WorldOptions& options_;
  const Context& context_;
  SimCommunicator comm_;
};

}  // namespace

class World::Impl {
 public:
  explicit Impl(const WorldOptions& options)
      : options_(options),
        allocators_(std::make_unique<Allocator[]>(static_cast<size_t>(options.size))),
        contexts_(static_cast<size_t>(options.size)) {
    for (int rank = 0; rank < options.size; ++rank) contexts_[rank].allocator = &allocators_[rank];
  }

  ~Impl() {
    bool in_use = false;
    for (int rank = 0; rank < options_.size; ++rank) in_use = in_use || InUse(allocators_[rank]);
    if (in_use) KeepForever(std::move(allocators_));
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  WorldResult Run(const std::function<void(Rank&)>& rank_main) {
    SchedulerOptions schedule;
    schedule.ranks = options_.size;
    schedule.random = options_.policy == SchedulePolicy::kRandom;
    schedule.seed = options_.seed;
    schedule.stack_bytes = options_.stack_bytes;
    Scheduler scheduler(schedule);
    Engine engine(options_, scheduler, contexts_);
    const auto body = [&](int global_rank) {
      SimRank rank(engine, global_rank, options_, contexts_[global_rank]);
      RunRank(engine, rank, rank_main);
    };
    scheduler.Run(body, [&] { engine.OnStuck(); });
    engine.Finish();
    if (engine.exception() != nullptr) std::rethrow_exception(engine.exception());
    WorldResult result;
    result.completed = engine.completed();
    result.findings = engine.TakeFindings();
    result.records = engine.TakeRecords();
    return result;
  }

 private:
  static void RunRank(Engine& engine, SimRank& rank, const std::function<void(Rank&)>& rank_main) {
    try {
      rank_main(rank);
    } catch (const Eviction&) {
    } catch (...) {
      // An Aborted that the engine threw comes after the stop, and is dropped there.
      engine.OnException(std::current_exception());
    }
  }

  WorldOptions options_;
  std::unique_ptr<Allocator[]> allocators_;
  std::vector<Context> contexts_;
};

World::World(WorldOptions options) {
  constexpr int kMaxRanks = 1 << 20;
  if (options.size < 1 || options.size > kMaxRanks) {
    throw InvalidArgument("a world of {} ranks; expected 1 to {}", options.size, kMaxRanks);
  }
  impl_ = std::make_unique<Impl>(options);
}

World::~World() = default;

WorldResult World::Run(const std::function<void(Rank&)>& rank_main) {
  return impl_->Run(rank_main);
}

}  // namespace plumbline
