// A rank's execution streams, simulated: each runs its tasks in order, and nothing but an event
// orders tasks of different streams.
//
// Under the round-robin policy a task runs as soon as it is enqueued and what it waits for has
// happened, communication first. Under the random policy a seeded choice holds tasks back, so that
// on some seed a task runs before, and on another after, whatever no event orders it with: a
// missing wait shows. The same seed repeats it.
//
// Comm:     collectives are tasks that issue and later complete an asynchronous call. No task but
//           one that Synchronize needs blocks the rank.
// Errors:   Internal when a stream waits for an event that nobody will record.
// Source:   CUDA's streams and events.
#ifndef PLUMBLINE_PARALLEL_COMM_STREAMS_H_
#define PLUMBLINE_PARALLEL_COMM_STREAMS_H_

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "base/rng.h"
#include "parallel/comm/communicator.h"
#include "parallel/comm/world_options.h"

namespace plumbline {

enum class StreamId : uint8_t { kCompute, kCommunication };

// Happens when its stream has run all that came before it.
using StreamEvent = int64_t;

class Streams {
 public:
  Streams(const WorldOptions& options, int global_rank);
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  void Enqueue(StreamId stream, std::function<void()> task);
  // A collective: `issue` starts it, and the stream goes on when it is complete.
  void EnqueueCall(StreamId stream, std::function<std::shared_ptr<Work>()> issue);
  StreamEvent Record(StreamId stream);
  void Wait(StreamId stream, StreamEvent event);
  // Blocks the rank until the stream is empty.
  void Synchronize(StreamId stream);

 private:
  struct Item {
    enum class Kind : uint8_t { kTask, kIssue, kComplete, kRecord, kWait };
    Kind kind = Kind::kTask;
    std::function<void()> task;
    std::function<std::shared_ptr<Work>()> issue;
    std::shared_ptr<std::shared_ptr<Work>> work;
    StreamEvent event = -1;
  };
  using Queue = std::deque<Item>;

  void Add(StreamId stream, Item item);
  void Advance();
  bool Ready(const Item& item) const;
  void RunFront(Queue& queue);
  void RunUntilHappened(StreamEvent event);
  // Runs the front item, or what it waits for.
  void ForceFront(Queue& queue);
  bool HoldsBack();

  std::array<Queue, 2> queues_;
  std::vector<bool> happened_;  // by event
  const bool random_;
  const RandomStream choices_;
  uint64_t choices_made_ = 0;
};

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_COMM_STREAMS_H_
