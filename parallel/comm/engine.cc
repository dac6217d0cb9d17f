#include "parallel/comm/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/mesh.h"
#include "parallel/comm/payload.h"

namespace plumbline {

void PendingCall::Wait() {
  if (finished) return;
  if (engine != nullptr) return engine->Wait(*this);
  if (std::uncaught_exceptions() == 0) throw Aborted("{}: the world has ended", Name(op));
}

bool PendingCall::Done() const {
  // Finding out that it is done delivers the output, as MPI_Test does; nobody else can tell.
  return finished || (engine != nullptr && engine->Done(const_cast<PendingCall&>(*this)));
}

size_t Engine::ChannelHash::operator()(const ChannelKey& key) const {
  const uint64_t ends = static_cast<uint64_t>(static_cast<uint32_t>(key.source)) << 32 |
                        static_cast<uint32_t>(key.destination);
  uint64_t hash = key.group ^ (ends * 0x9e3779b97f4a7c15u);
  hash = (hash ^ (hash >> 29)) + static_cast<uint32_t>(key.tag);
  return static_cast<size_t>((hash * 0xbf58476d1ce4e5b9u) ^ (hash >> 32));
}

Engine::Engine(const WorldOptions& options, Scheduler& scheduler,
               const std::vector<Context>& contexts)
    : options_(options),
      scheduler_(scheduler),
      contexts_(contexts),
      ranks_(static_cast<size_t>(options.size)) {}

Engine::~Engine() {
  while (first_pending_ != nullptr) {
    PendingCall& call = *first_pending_;
    call.input = call.output = call.result = Tensor();
    Release(call);
  }
}

GroupState& Engine::FindGroup(const std::vector<int>& members, const std::string& name,
                              uint64_t hash) {
  const auto known = groups_.find(hash);
  if (known != groups_.end()) return known->second;
  std::vector<int> sorted = members;
  std::sort(sorted.begin(), sorted.end());
  const bool twice = std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
  if (members.empty() || twice || sorted.front() < 0 || sorted.back() >= options_.size) {
    throw InvalidArgument("group {}: members must be distinct ranks of 0 to {}",
                          ToString(Group{name, members, hash}), options_.size - 1);
  }
  GroupState& group = groups_[hash];
  group.name = name;
  group.members = std::make_shared<const std::vector<int>>(members);
  group.hash = hash;
  return group;
}

Engine::Membership& Engine::FindMembership(int global_rank, const Group& group) {
  RankState& rank = ranks_[global_rank];
  // A hash that is not set, or that belongs to other members, is computed anew.
  uint64_t hash = group.hash != 0 ? group.hash : HashOfMembers(group.members);
  for (int attempt = 0;; ++attempt) {
    for (Membership& membership : rank.memberships) {
      if (membership.hash != hash) continue;
      if (membership.group->SameMembers(group.members)) return membership;
      break;
    }
    GroupState& state = FindGroup(group.members, group.name, hash);
    if (*state.members == group.members) {
      return rank.memberships.emplace_back(Membership{hash, &state, group.IndexOf(global_rank), 0});
    }
    PL_CHECK(attempt == 0);
    hash = HashOfMembers(group.members);
  }
}

std::shared_ptr<PendingCall> Engine::MakePending(int global_rank, const CollectiveCall& call,
                                                 const Membership& membership) {
  auto pending = std::make_shared<PendingCall>();
  pending->engine = this;
  pending->op = call.op;
  pending->reduce_op = call.reduce_op;
  pending->global_rank = global_rank;
  pending->position = membership.position;
  pending->peer = call.peer;
  pending->tag = call.tag;
  pending->blocking = call.blocking;
  pending->input = call.input;
  pending->output = call.output;
  pending->input_splits = call.input_splits;
  pending->output_splits = call.output_splits;
  pending->site = call.site;
  pending->group_name = call.group.name;
  pending->group = membership.group;
  pending->issue_time = scheduler_.steps();
  pending->self = pending;
  pending->next = first_pending_;
  if (first_pending_ != nullptr) first_pending_->previous = pending.get();
  first_pending_ = pending.get();
  return pending;
}

std::shared_ptr<Work> Engine::Issue(int global_rank, const CollectiveCall& call) {
  if (stopped_ && Refuse(global_rank)) {
    auto dead = std::make_shared<PendingCall>();
    dead->finished = true;
    return dead;
  }
  Membership& membership = FindMembership(global_rank, call.group);
  if (membership.position < 0) RefuseStranger(global_rank, call, membership);
  ValidateCall(call, membership.position);
  ++progress_;
  std::shared_ptr<PendingCall> pending = MakePending(global_rank, call, membership);
  TakeOff(*pending, contexts_[global_rank], options_.fingerprint && options_.checksums,
          options_.checksums);
  if (call.op == CollectiveOp::kSend || call.op == CollectiveOp::kRecv) {
    JoinChannel(pending);
  } else {
    JoinCollective(pending, membership);
  }
  if (stopped_) Refuse(global_rank);
  return pending;
}

void Engine::JoinCollective(const std::shared_ptr<PendingCall>& call, Membership& membership) {
  GroupState& group = *membership.group;
  call->sequence = membership.next_sequence++;
  const size_t offset = static_cast<size_t>(call->sequence - group.first_open);
  if (offset == group.open.size()) {
    auto& fresh = group.open.emplace_back(std::make_shared<Collective>());
    fresh->sequence = call->sequence;
    fresh->calls.resize(group.members->size());
  }
  const std::shared_ptr<Collective> collective = group.open[offset];
  call->collective = collective;
  collective->calls[static_cast<size_t>(call->position)] = call;
  ++collective->arrived;
  if (options_.fingerprint) {
    call->record = matcher_.Add(MakeRecord(*call));
    matcher_.Arrive(collective->slot, call->record);
    if (CollectFindings()) return;
  }
  if (collective->arrived < static_cast<int>(collective->calls.size())) return;
  if (!FitTogether(collective->calls)) {
    for (const auto& each : collective->calls) each->unfit = true;
    return;
  }
  Launch(*call);
  while (!group.open.empty() && group.open.front()->moved) {
    group.open.pop_front();
    ++group.first_open;
  }
}

// The last call is there: the data move now, whoever waits goes on.
void Engine::Launch(PendingCall& last) {
  Collective& collective = *last.collective;
  for (const auto& call : collective.calls) CheckChanged(*call);
  MovePayloads(collective.calls, contexts_[last.global_rank]);
  collective.moved = true;
  for (const auto& call : collective.calls) {
    if (call->before_due) matcher_.SetBefore(call->record, call->before);
    Wake(*call);
  }
  collective.calls.clear();
}

void Engine::JoinChannel(const std::shared_ptr<PendingCall>& call) {
  const bool sends = call->op == CollectiveOp::kSend;
  const ChannelKey key = {call->group->hash, sends ? call->position : call->peer,
                          sends ? call->peer : call->position, call->tag};
  Channel& channel = channels_[key];
  call->sequence = sends ? channel.sent++ : channel.received++;
  if (options_.fingerprint) call->record = matcher_.Add(MakeRecord(*call));
  auto& others = sends ? channel.recvs : channel.sends;
  if (others.empty()) {
    (sends ? channel.sends : channel.recvs).push_back(call);
    return;
  }
  const std::shared_ptr<PendingCall> other = others.front();
  others.pop_front();
  PendingCall& send = sends ? *call : *other;
  PendingCall& recv = sends ? *other : *call;
  if (options_.fingerprint) {
    matcher_.Meet(send.record, recv.record);
    if (CollectFindings()) return;
  }
  if (!FitTogether(send, recv)) {
    send.unfit = recv.unfit = true;
    return;
  }
  CheckChanged(send);
  MoveMessage(send, recv, contexts_[call->global_rank]);
  Wake(*other);
}

void Engine::Wake(PendingCall& call) {
  if (call.waiting) scheduler_.Unblock(call.global_rank);
}

void Engine::Wait(PendingCall& call) {
  PL_CHECK(call.global_rank == scheduler_.current());
  RankState& rank = ranks_[call.global_rank];
  while (call.delivery == Delivery::kNone) {
    if (stopped_ && Refuse(call.global_rank)) return;
    call.waiting = true;
    rank.waiting_on = &call;
    scheduler_.Block();
    rank.waiting_on = nullptr;
    call.waiting = false;
  }
  if (stopped_ && Refuse(call.global_rank)) return;
  Complete(call);
  if (stopped_) Refuse(call.global_rank);
}

bool Engine::Done(PendingCall& call) {
  PL_CHECK(call.global_rank == scheduler_.current());
  if (stopped_ && Refuse(call.global_rank)) return true;
  if (call.delivery != Delivery::kNone) {
    Complete(call);
    if (stopped_) Refuse(call.global_rank);
    return true;
  }
  // A poll that fails lets others run, or it would fail for ever.
  RankState& rank = ranks_[call.global_rank];
  rank.waiting_on = &call;
  if (AllOnlyPoll()) {
    OnStuck();
  } else {
    scheduler_.Yield();
  }
  rank.waiting_on = nullptr;
  if (stopped_) Refuse(call.global_rank);
  return false;
}

// Whether every rank that can run has polled in vain for long while nothing else happened. Counted,
// not timed, so that a run stays a function of its options.
bool Engine::AllOnlyPoll() {
  constexpr int64_t kPatience = 10000;
  if (tired_at_ != progress_) {
    tired_at_ = progress_;
    tired_pollers_ = 0;
  }
  RankState& rank = ranks_[scheduler_.current()];
  if (rank.polled_at != progress_) {
    rank.polled_at = progress_;
    rank.polls = 0;
  }
  if (++rank.polls == kPatience) ++tired_pollers_;
  return tired_pollers_ >= scheduler_.runnable();
}

void Engine::Yield(int global_rank) {
  if (stopped_ && Refuse(global_rank)) return;
  ++progress_;
  scheduler_.Yield();
  if (stopped_) Refuse(global_rank);
}

void Engine::Complete(PendingCall& call) {
  ++progress_;
  CheckChanged(call);
  Land(call);
  if (call.record >= 0) {
    const bool checksum = options_.checksums && call.output.defined();
    MatchSlot* slot = call.collective != nullptr ? &call.collective->slot : nullptr;
    matcher_.Complete(slot, call.record, checksum ? ChecksumOf(call.output) : Checksum(),
                      scheduler_.steps());
    CollectFindings();
  }
  Release(call);
}

// Forgets the call. `self` may have been the last owner.
void Engine::Release(PendingCall& call) {
  call.finished = call.delivery != Delivery::kNone;
  call.engine = nullptr;
  call.input = call.output = Tensor();
  call.collective.reset();
  (call.previous != nullptr ? call.previous->next : first_pending_) = call.next;
  if (call.next != nullptr) call.next->previous = call.previous;
  call.previous = call.next = nullptr;
  const std::shared_ptr<PendingCall> last_owner = std::move(call.self);
}

void Engine::CheckChanged(PendingCall& call) {
  if (!InputChanged(call)) return;
  call.watched = false;  // told once
  Finding finding;
  finding.kind = FindingClass::kPayloadChanged;
  finding.site = call.site;
  finding.ranks = {call.global_rank};
  const CollectiveRecord record = MakeRecord(call);
  finding.group = GroupText(record);
  finding.actual = ToString(ChecksumOf(call.input));
  finding.reference = ToString(call.before);
  finding.message = fmt::format(
      "{}; its input changed before Wait returned: checksum {} at issue, {} now (payload changed)",
      ToString(record), finding.reference, finding.actual);
  findings_.push_back(std::move(finding));
  if (options_.on_mismatch == OnMismatch::kStop) Stop(findings_.back().message);
}

void Engine::RefuseStranger(int global_rank, const CollectiveCall& call,
                            const Membership& membership) {
  if (options_.fingerprint) {
    PendingCall stranger;
    stranger.op = call.op;
    stranger.reduce_op = call.reduce_op;
    stranger.global_rank = global_rank;
    stranger.tag = call.tag;
    stranger.input = call.input;
    stranger.output = call.output;
    stranger.site = call.site;
    stranger.group_name = call.group.name;
    stranger.group = membership.group;
    stranger.sequence = -1;
    stranger.issue_time = scheduler_.steps();
    // Positions have no meaning for it: peer stays unset.
    if (call.op == CollectiveOp::kSend || call.op == CollectiveOp::kRecv) {
      stranger.peer = std::clamp(call.peer, 0, call.group.size() - 1);
    }
    matcher_.ReportStranger(matcher_.Add(MakeRecord(stranger)));
    if (CollectFindings()) Refuse(global_rank);
  }
  throw InvalidArgument("{} of rank {} over {}: it is not a member", Name(call.op), global_rank,
                        ToString(call.group));
}

}  // namespace plumbline
