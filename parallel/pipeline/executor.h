// Runs one stage's list of a pipeline schedule: computes in the list's order, and moves activations
// and their gradients between stages.
//
// Shapes:   every message has one shape, that of a hidden state.
// Comm:     one send or receive per message of the schedule, over the pipeline's group, where a
//           stage's number is its rank's position. All are asynchronous and carry the schedule's
//           MessageTag, so that peers are right also with pp 2, where next and previous stage are
//           the same. kRendezvous: the messages of a batch (Operation::with_next) are issued
//           together, then waited for, as Megatron does without virtual stages. kEager: a send is
//           under way until the end of the run, a receive until its result is used.
// Errors:   Internal when a computation's input was never received, or what is sent never computed.
// Source:   Megatron-Core pipeline_parallel/schedules.py, p2p_communication.py.
#ifndef PLUMBLINE_PARALLEL_PIPELINE_EXECUTOR_H_
#define PLUMBLINE_PARALLEL_PIPELINE_EXECUTOR_H_

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "base/context.h"
#include "base/tensor.h"
#include "parallel/comm/communicator.h"
#include "parallel/pipeline/schedule.h"
#include "parallel/pipeline/simulate.h"

namespace plumbline {

// What a stage computes. Microbatches and chunks are the schedule's.
class StageWork {
 public:
  virtual ~StageWork() = default;
  // `input` is undefined on the model's first chunk. What it returns goes to the next one; nothing
  // does from the last.
  virtual Tensor Forward(int chunk, int microbatch, const Tensor& input) = 0;
  // `doutput` is undefined on the model's last chunk. Returns the gradient of the input, which goes
  // to the previous chunk; nothing does from the first.
  virtual Tensor Backward(int chunk, int microbatch, const Tensor& doutput) = 0;
  // The same in two parts.
  virtual Tensor BackwardInput(int chunk, int microbatch, const Tensor& doutput) = 0;
  virtual void BackwardWeight(int chunk, int microbatch) = 0;
};

struct ExecutorOptions {
  Transport transport = Transport::kRendezvous;
  Shape message_shape;
  DType dtype = DType::kF64;
};

// The logical id of a message: equal at both ends.
using MessageSite = std::function<Site(const Operation& message)>;

class Executor {
 public:
  // `schedule` and `pipeline` outlive it.
  Executor(const Context& context, Communicator& comm, const Group& pipeline,
           const Schedule& schedule, int stage, ExecutorOptions options);

  // The whole list, once.
  void Run(StageWork& work, const MessageSite& site_of);

 private:
  // Chunk, microbatch, and whether it is a gradient.
  using Key = std::tuple<int, int, bool>;
  struct Message {
    Tensor tensor;
    std::shared_ptr<Work> work;
  };

  void Compute(const Operation& operation, StageWork& work);
  Tensor Received(const Operation& operation, bool gradient);
  size_t IssueBatch(size_t begin, const MessageSite& site_of);
  Message Issue(const Operation& operation, const MessageSite& site_of);

  const Context& context_;
  Communicator& comm_;
  const Group& pipeline_;
  const Schedule& schedule_;
  const int stage_;
  const ExecutorOptions options_;
  std::map<Key, Tensor> computed_;   // to be sent
  std::map<Key, Message> received_;  // to be used, perhaps still under way
  std::vector<Message> sent_;        // under way
};

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_PIPELINE_EXECUTOR_H_
