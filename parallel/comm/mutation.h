// Plants mistakes in what a rank says to its communicator, from outside.
//
// A rule looks at a call and either leaves it alone (nullptr) or answers it: by another call on
// `inner`, by none, by what it does to the result. The first rule that answers wins. The decorator
// sits on top of the rank's own communicator, so that the fingerprint sees the calls as mutated.
#ifndef PLUMBLINE_PARALLEL_COMM_MUTATION_H_
#define PLUMBLINE_PARALLEL_COMM_MUTATION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "parallel/comm/communicator.h"

namespace plumbline {

using MutationRule =
    std::function<std::shared_ptr<Work>(const CollectiveCall& call, Communicator& inner)>;
using CallPredicate = std::function<bool(const CollectiveCall& call, int global_rank)>;

class MutationCommunicator : public CommunicatorDecorator {
 public:
  MutationCommunicator(Communicator& inner, std::vector<MutationRule> rules);
  std::shared_ptr<Work> Issue(const CollectiveCall& call) override;

 private:
  std::vector<MutationRule> rules_;
};

// Which calls. Rules and predicates with a memory (Nth, SwapWithNext) belong to one rank.
CallPredicate OnRank(int global_rank, CallPredicate also);  // `also` may be empty: any call
CallPredicate Nth(int64_t n, CallPredicate predicate);      // the n-th that matches, from 0

// What becomes of them.
//
// Answers without a word to the peers: the output is the rank's own contribution, what the
// collective would give with zeros from all others. A recv gives zeros.
MutationRule Drop(CallPredicate predicate);
// No call, and the output stays as it was.
MutationRule Skip(CallPredicate predicate);
MutationRule ChangeReduceOp(CallPredicate predicate, ReduceOp op);
MutationRule ChangeGroup(CallPredicate predicate, std::function<Group(const Group&)> change);
// Any other change of the call.
MutationRule ChangeCall(CallPredicate predicate, std::function<void(CollectiveCall&)> change);
// Makes two consecutive matching calls in the opposite order. The first one's Wait returns at once;
// its result is there when the second's has returned.
MutationRule SwapWithNext(CallPredicate predicate);
// Makes the call only when its Wait is called.
MutationRule DelayUntilWait(CallPredicate predicate);
// Changes of the result, right after completion.
MutationRule ScaleResult(CallPredicate predicate, double factor);
MutationRule ZeroResult(CallPredicate predicate);
MutationRule FlipBit(CallPredicate predicate, int64_t byte, int bit);
MutationRule ChangeResult(CallPredicate predicate, std::function<void(Tensor& output)> change);

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_COMM_MUTATION_H_
