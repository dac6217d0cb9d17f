#include "parallel/pipeline/executor.h"

#include <utility>

#include "base/error.h"

namespace plumbline {

Executor::Executor(const Context& context, Communicator& comm, const Group& pipeline,
                   const Schedule& schedule, int stage, ExecutorOptions options)
    : context_(context),
      comm_(comm),
      pipeline_(pipeline),
      schedule_(schedule),
      stage_(stage),
      options_(std::move(options)) {
  PL_CHECK(pipeline.size() == static_cast<int>(schedule.stages.size()));
  PL_CHECK(stage >= 0);
  PL_CHECK(stage < pipeline.size());
}

void Executor::Run(StageWork& work, const MessageSite& site_of) {
  const std::vector<Operation>& operations = schedule_.stages[static_cast<size_t>(stage_)];
  for (size_t i = 0; i < operations.size();) {
    if (IsCompute(operations[i].kind)) {
      Compute(operations[i++], work);
    } else {
      i = IssueBatch(i, site_of);
    }
  }
  for (Message& message : sent_) message.work->Wait();
  for (auto& [key, message] : received_) message.work->Wait();
  sent_.clear();
  received_.clear();
  computed_.clear();
}

void Executor::Compute(const Operation& operation, StageWork& work) {
  const ScheduleConfig& config = schedule_.config;
  const int index = config.VirtualIndex(stage_, operation.chunk);
  const bool first = index == 0;
  const bool last = index + 1 == config.virtual_stages();
  const int chunk = operation.chunk;
  const int microbatch = operation.microbatch;
  if (operation.kind == OperationKind::kBackwardWeight) {
    work.BackwardWeight(chunk, microbatch);
    return;
  }
  if (operation.kind == OperationKind::kForward) {
    Tensor output =
        work.Forward(chunk, microbatch, first ? Tensor() : Received(operation, /*gradient=*/false));
    if (!last) computed_[{chunk, microbatch, false}] = std::move(output);
    return;
  }
  const Tensor doutput = last ? Tensor() : Received(operation, /*gradient=*/true);
  Tensor dinput = operation.kind == OperationKind::kBackward
                      ? work.Backward(chunk, microbatch, doutput)
                      : work.BackwardInput(chunk, microbatch, doutput);
  if (!first) computed_[{chunk, microbatch, true}] = std::move(dinput);
}

Tensor Executor::Received(const Operation& operation, bool gradient) {
  const auto found = received_.find({operation.chunk, operation.microbatch, gradient});
  if (found == received_.end()) {
    throw Internal("stage {}: {} without its input: no receive came before", stage_,
                   ToString(operation));
  }
  Message message = std::move(found->second);
  received_.erase(found);
  message.work->Wait();
  return message.tensor;
}

// Returns the index after the batch.
size_t Executor::IssueBatch(size_t begin, const MessageSite& site_of) {
  const std::vector<Operation>& operations = schedule_.stages[static_cast<size_t>(stage_)];
  std::vector<std::shared_ptr<Work>> batch;
  size_t i = begin;
  for (bool more = true; more; ++i) {
    const Operation& operation = operations[i];
    Message message = Issue(operation, site_of);
    batch.push_back(message.work);
    if (IsSend(operation.kind)) {
      sent_.push_back(std::move(message));
    } else {
      received_[{operation.chunk, operation.microbatch, IsGradientMessage(operation.kind)}] =
          std::move(message);
    }
    more = operation.with_next && i + 1 < operations.size() && !IsCompute(operations[i + 1].kind);
  }
  if (options_.transport == Transport::kRendezvous) {
    for (const std::shared_ptr<Work>& work : batch) work->Wait();
    sent_.clear();
  }
  return i;
}

Executor::Message Executor::Issue(const Operation& operation, const MessageSite& site_of) {
  const int tag = MessageTag(schedule_.config, stage_, operation);
  const Site site = site_of(operation);
  if (!IsSend(operation.kind)) {
    const Tensor buffer = Tensor::Empty(context_, options_.dtype, options_.message_shape);
    return {buffer, comm_.RecvAsync(buffer, operation.peer_stage, tag, pipeline_, site)};
  }
  const auto found =
      computed_.find({operation.chunk, operation.microbatch, IsGradientMessage(operation.kind)});
  if (found == computed_.end()) {
    throw Internal("stage {}: {}: nothing was computed for it", stage_, ToString(operation));
  }
  const Tensor tensor = found->second.Contiguous(context_);
  computed_.erase(found);
  return {tensor, comm_.SendAsync(tensor, operation.peer_stage, tag, pipeline_, site)};
}

}  // namespace plumbline
