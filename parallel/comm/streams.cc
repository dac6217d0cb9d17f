#include "parallel/comm/streams.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace plumbline {

Streams::Streams(const WorldOptions& options, int global_rank)
    : random_(options.policy == SchedulePolicy::kRandom),
      choices_(DataStream(options.seed + static_cast<uint64_t>(global_rank), "streams")) {}

void Streams::Enqueue(StreamId stream, std::function<void()> task) {
  Item item;
  item.task = std::move(task);
  Add(stream, std::move(item));
}

void Streams::EnqueueCall(StreamId stream, std::function<std::shared_ptr<Work>()> issue) {
  Item start;
  start.kind = Item::Kind::kIssue;
  start.issue = std::move(issue);
  start.work = std::make_shared<std::shared_ptr<Work>>();
  Item complete;
  complete.kind = Item::Kind::kComplete;
  complete.work = start.work;
  Add(stream, std::move(start));
  Add(stream, std::move(complete));
}

StreamEvent Streams::Record(StreamId stream) {
  const auto event = static_cast<StreamEvent>(happened_.size());
  happened_.push_back(false);
  Item item;
  item.kind = Item::Kind::kRecord;
  item.event = event;
  Add(stream, std::move(item));
  return event;
}

void Streams::Wait(StreamId stream, StreamEvent event) {
  if (happened_[static_cast<size_t>(event)]) return;
  Item item;
  item.kind = Item::Kind::kWait;
  item.event = event;
  Add(stream, std::move(item));
}

void Streams::Synchronize(StreamId stream) {
  Queue& queue = queues_[static_cast<size_t>(stream)];
  while (!queue.empty()) {
    ForceFront(queue);
    Advance();
  }
}

void Streams::Add(StreamId stream, Item item) {
  queues_[static_cast<size_t>(stream)].push_back(std::move(item));
  Advance();
}

void Streams::Advance() {
  for (;;) {
    std::vector<Queue*> ready;
    for (Queue& queue : queues_) {
      if (!queue.empty() && Ready(queue.front())) ready.push_back(&queue);
    }
    if (ready.empty() || HoldsBack()) return;
    const size_t chosen =
        random_ ? choices_.Bits(choices_made_++) % ready.size() : ready.size() - 1;
    RunFront(*ready[chosen]);
  }
}

bool Streams::HoldsBack() { return random_ && choices_.Bits(choices_made_++) % 2 == 0; }

bool Streams::Ready(const Item& item) const {
  switch (item.kind) {
    case Item::Kind::kWait:
      return happened_[static_cast<size_t>(item.event)];
    case Item::Kind::kComplete:
      // Peers may need this rank to get there: that is for Synchronize to wait for.
      return random_ && (*item.work)->Done();
    default:
      return true;
  }
}

void Streams::RunFront(Queue& queue) {
  // Out of the queue first: a task may enqueue, and an exception must not run it twice.
  Item item = std::move(queue.front());
  queue.pop_front();
  switch (item.kind) {
    case Item::Kind::kTask:
      item.task();
      break;
    case Item::Kind::kIssue:
      *item.work = item.issue();
      break;
    case Item::Kind::kComplete:
      (*item.work)->Wait();
      break;
    case Item::Kind::kRecord:
      happened_[static_cast<size_t>(item.event)] = true;
      break;
    case Item::Kind::kWait:
      break;
  }
}

void Streams::ForceFront(Queue& queue) {
  const Item& front = queue.front();
  if (front.kind == Item::Kind::kWait && !happened_[static_cast<size_t>(front.event)]) {
    RunUntilHappened(front.event);  // and perhaps more, so that the front is another one now
  } else {
    RunFront(queue);
  }
}

void Streams::RunUntilHappened(StreamEvent event) {
  while (!happened_[static_cast<size_t>(event)]) {
    const auto recorder = std::find_if(queues_.begin(), queues_.end(), [event](const Queue& queue) {
      return std::any_of(queue.begin(), queue.end(), [event](const Item& item) {
        return item.kind == Item::Kind::kRecord && item.event == event;
      });
    });
    if (recorder == queues_.end()) throw Internal("stream event {} is never recorded", event);
    ForceFront(*recorder);
    Advance();
  }
}

}  // namespace plumbline
