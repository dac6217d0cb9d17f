#include "parallel/comm/mutation.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.h"
#include "kernels/elementwise.h"

namespace plumbline {
namespace {

class NoWork : public Work {
 public:
  void Wait() override {}
  bool Done() const override { return true; }
};

// Does something once the inner call is complete.
class FollowedWork : public Work {
 public:
  FollowedWork(std::shared_ptr<Work> inner, std::function<void()> follow)
      : inner_(std::move(inner)), follow_(std::move(follow)) {}

  void Wait() override {
    inner_->Wait();
    Follow();
  }
  bool Done() const override {
    if (!inner_->Done()) return false;
    Follow();
    return true;
  }

 private:
  void Follow() const {
    if (follow_) std::exchange(follow_, nullptr)();
  }

  std::shared_ptr<Work> inner_;
  mutable std::function<void()> follow_;
};

class DelayedWork : public Work {
 public:
  DelayedWork(CollectiveCall call, Communicator& inner) : call_(std::move(call)), inner_(inner) {}

  void Wait() override {
    if (work_ == nullptr) work_ = inner_.Issue(call_);
    work_->Wait();
  }
  bool Done() const override { return work_ != nullptr && work_->Done(); }

 private:
  CollectiveCall call_;
  Communicator& inner_;
  std::shared_ptr<Work> work_;
};

MutationRule When(CallPredicate predicate, MutationRule action) {
  return [predicate = std::move(predicate), action = std::move(action)](
             const CollectiveCall& call, Communicator& inner) -> std::shared_ptr<Work> {
    if (!predicate(call, inner.global_rank())) return nullptr;
    return action(call, inner);
  };
}

// The bytes of `from` at an offset of `to`, the rest zero.
void PutAlone(Tensor& to, size_t to_offset, const std::byte* from, size_t bytes) {
  std::vector<std::byte> part(from, from + bytes);  // input and output may overlap
  to.FillZero();
  std::copy(part.begin(), part.end(), to.raw() + to_offset);
}

size_t RowBytes(const Tensor& tensor) {
  const int64_t rows = tensor.dims() == 0 ? 1 : tensor.dim(0);
  return rows == 0 ? 0 : tensor.bytes() / static_cast<size_t>(rows);
}

// Offset and size of the rank's part for itself in one side of an all_to_all.
std::pair<size_t, size_t> OwnSplit(const Tensor& side, const std::vector<int64_t>& splits,
                                   size_t position, size_t size) {
  if (splits.empty()) return {side.bytes() / size * position, side.bytes() / size};
  const int64_t before = std::accumulate(
      splits.begin(), splits.begin() + static_cast<std::ptrdiff_t>(position), int64_t{0});
  return {RowBytes(side) * static_cast<size_t>(before),
          RowBytes(side) * static_cast<size_t>(splits[position])};
}

void OwnContribution(CollectiveCall& call, int global_rank) {
  const int index = call.group.IndexOf(global_rank);
  const size_t size = static_cast<size_t>(call.group.size());
  if (index < 0) throw InvalidArgument("{}: rank {} is not a member", Name(call.op), global_rank);
  const size_t position = static_cast<size_t>(index);
  Tensor& output = call.output;
  switch (call.op) {
    case CollectiveOp::kAllReduce:
      return PutAlone(output, 0, call.input.raw(), output.bytes());
    case CollectiveOp::kBroadcast:
      if (call.peer != index) return output.FillZero();
      return PutAlone(output, 0, call.input.raw(), output.bytes());
    case CollectiveOp::kReduceScatter:
      return PutAlone(output, 0, call.input.raw() + output.bytes() * position, output.bytes());
    case CollectiveOp::kAllGather:
      return PutAlone(output, call.input.bytes() * position, call.input.raw(), call.input.bytes());
    case CollectiveOp::kAllToAll: {
      const auto [from, bytes] = OwnSplit(call.input, call.input_splits, position, size);
      const size_t to = OwnSplit(output, call.output_splits, position, size).first;
      return PutAlone(output, to, call.input.raw() + from, bytes);
    }
    case CollectiveOp::kRecv:
      return output.FillZero();
    case CollectiveOp::kSend:
    case CollectiveOp::kBarrier:
      return;
  }
}

}  // namespace

MutationCommunicator::MutationCommunicator(Communicator& inner, std::vector<MutationRule> rules)
    : CommunicatorDecorator(inner), rules_(std::move(rules)) {}

std::shared_ptr<Work> MutationCommunicator::Issue(const CollectiveCall& call) {
  for (const MutationRule& rule : rules_) {
    if (std::shared_ptr<Work> work = rule(call, inner())) return work;
  }
  return inner().Issue(call);
}

CallPredicate OnRank(int global_rank, CallPredicate also) {
  return [global_rank, also = std::move(also)](const CollectiveCall& call, int caller) {
    return caller == global_rank && (!also || also(call, caller));
  };
}

CallPredicate Nth(int64_t n, CallPredicate predicate) {
  return [n, predicate = std::move(predicate), seen = int64_t{0}](const CollectiveCall& call,
                                                                  int caller) mutable {
    return predicate(call, caller) && seen++ == n;
  };
}

MutationRule Drop(CallPredicate predicate) {
  return When(std::move(predicate), [](const CollectiveCall& call, Communicator& inner) {
    CollectiveCall own = call;
    OwnContribution(own, inner.global_rank());
    return std::make_shared<NoWork>();
  });
}

MutationRule Skip(CallPredicate predicate) {
  return When(std::move(predicate),
              [](const CollectiveCall&, Communicator&) { return std::make_shared<NoWork>(); });
}

MutationRule ChangeReduceOp(CallPredicate predicate, ReduceOp op) {
  return ChangeCall(std::move(predicate), [op](CollectiveCall& call) { call.reduce_op = op; });
}

MutationRule ChangeGroup(CallPredicate predicate, std::function<Group(const Group&)> change) {
  return ChangeCall(std::move(predicate), [change = std::move(change)](CollectiveCall& call) {
    call.group = change(call.group);
  });
}

MutationRule ChangeCall(CallPredicate predicate, std::function<void(CollectiveCall&)> change) {
  return When(std::move(predicate),
              [change = std::move(change)](const CollectiveCall& call, Communicator& inner) {
                CollectiveCall changed = call;
                change(changed);
                return inner.Issue(changed);
              });
}

MutationRule SwapWithNext(CallPredicate predicate) {
  return When(
      std::move(predicate),
      [held = std::optional<CollectiveCall>()](
          const CollectiveCall& call, Communicator& inner) mutable -> std::shared_ptr<Work> {
        if (!held) {
          held = call;
          held->blocking = false;
          return std::make_shared<NoWork>();
        }
        CollectiveCall second = call;
        second.blocking = false;
        const CollectiveCall first = *std::exchange(held, std::nullopt);
        const std::shared_ptr<Work> ahead = inner.Issue(second);
        const std::shared_ptr<Work> behind = inner.Issue(first);
        return std::make_shared<FollowedWork>(ahead, [behind] { behind->Wait(); });
      });
}

MutationRule DelayUntilWait(CallPredicate predicate) {
  return When(std::move(predicate), [](const CollectiveCall& call, Communicator& inner) {
    return std::make_shared<DelayedWork>(call, inner);
  });
}

MutationRule ScaleResult(CallPredicate predicate, double factor) {
  return ChangeResult(std::move(predicate), [factor](Tensor& output) {
    if (output.defined()) ScaleInto(Context{}, output, factor);
  });
}

MutationRule ZeroResult(CallPredicate predicate) {
  return ChangeResult(std::move(predicate), [](Tensor& output) {
    if (output.defined()) output.FillZero();
  });
}

MutationRule FlipBit(CallPredicate predicate, int64_t byte, int bit) {
  return ChangeResult(std::move(predicate), [byte, bit](Tensor& output) {
    if (!output.defined()) return;
    PL_CHECK(byte < static_cast<int64_t>(output.bytes()));
    output.raw()[byte] ^= std::byte{1} << bit;
  });
}

MutationRule ChangeResult(CallPredicate predicate, std::function<void(Tensor& output)> change) {
  return When(std::move(predicate), [change = std::move(change)](const CollectiveCall& call,
                                                                 Communicator& inner) {
    return std::make_shared<FollowedWork>(
        inner.Issue(call), [change, output = call.output]() mutable { change(output); });
  });
}

}  // namespace plumbline
