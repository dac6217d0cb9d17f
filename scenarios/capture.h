// Keeps what all ranks hold and say at one site, for the diagnosis.
#ifndef PLUMBLINE_SCENARIOS_CAPTURE_H_
#define PLUMBLINE_SCENARIOS_CAPTURE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "base/mesh.h"
#include "base/probe.h"
#include "base/site.h"
#include "parallel/comm/communicator.h"

namespace plumbline {

struct CapturedTensor {
  int rank = -1;
  ObservedLayout layout;
  Tensor local;  // a packed copy
};

// A collective that carries the site: what a rank put into it.
struct CapturedCall {
  int rank = -1;
  int64_t number = 0;  // counts this rank's collectives at the site, from 0
  CollectiveOp op = CollectiveOp::kBarrier;
  ReduceOp reduce_op = ReduceOp::kSum;
  Group group;
  Tensor input;  // a packed copy; undefined when the call has none
};

class Capture {
 public:
  explicit Capture(Site site) : site_(std::move(site)) {}
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  Probe& ProbeOf(int global_rank);
  std::unique_ptr<Communicator> Watch(Communicator& inner);

  // By rank.
  std::vector<CapturedTensor> TakeTensors();
  // By number, then rank.
  std::vector<CapturedCall> TakeCalls();

 private:
  class RankProbe;
  class Watcher;

  Site site_;
  std::vector<std::unique_ptr<Probe>> probes_;
  std::vector<CapturedTensor> tensors_;
  std::vector<CapturedCall> calls_;
};

}  // namespace plumbline

#endif  // PLUMBLINE_SCENARIOS_CAPTURE_H_
