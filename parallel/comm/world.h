// N simulated ranks in one thread, each on a fiber, one runnable at a time.
//
// A run is a function of (rank_main, options): the same options give the same interleaving, and
// whatever the interleaving, the same tensors bit for bit. "No rank can run" is a deadlock, found
// at once.
//
// Numerics: reductions run once per collective, in group order, when the last member has issued and
// the schedule
//           completes it.
// Errors:   an exception of a rank's main stops the world: peers unwind with Aborted, and Run
// rethrows the first one.
#ifndef PLUMBLINE_PARALLEL_COMM_WORLD_H_
#define PLUMBLINE_PARALLEL_COMM_WORLD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/context.h"
#include "base/finding.h"
#include "fingerprint/record.h"
#include "parallel/comm/communicator.h"
#include "parallel/comm/world_options.h"

namespace plumbline {

// What a rank's main sees.
class Rank {
 public:
  virtual ~Rank() = default;
  virtual int global_rank() const = 0;
  virtual int world_size() const = 0;
  virtual Communicator& comm() = 0;
  virtual const Context& context() const = 0;  // host, with this rank's own allocator
  virtual const WorldOptions& options() const = 0;
  virtual void Yield() = 0;                    // lets the schedule run another rank
};

struct WorldResult {
  std::vector<Finding>
      findings;  // collective mismatches, changed payloads, deadlock; in the order found
  std::vector<CollectiveRecord>
      records;             // of all ranks, in order of issue; empty without `fingerprint`
  bool completed = false;  // every rank's main returned
};

class World {
 public:
  explicit World(WorldOptions options);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Runs rank_main once per rank and returns when all have ended or the world has stopped. Deadlock
  // and mismatch are in the result; an exception of a rank is rethrown.
  WorldResult Run(const std::function<void(Rank&)>& rank_main);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_COMM_WORLD_H_
