// What happens between the calls of one world's ranks: joining, matching, blocking, stopping.
//
// Errors:   InvalidArgument for a call that contradicts itself; Aborted from every call once the
//           world has stopped, so that the rank unwinds. A rank that catches Aborted and goes on
//           meets it at each further call, later an exception that no handler of Error catches, and
//           at last is left where it stands.
#ifndef PLUMBLINE_PARALLEL_COMM_ENGINE_H_
#define PLUMBLINE_PARALLEL_COMM_ENGINE_H_

#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/context.h"
#include "base/finding.h"
#include "fingerprint/matcher.h"
#include "parallel/comm/deadlock.h"
#include "parallel/comm/pending_call.h"
#include "parallel/comm/scheduler.h"
#include "parallel/comm/world_options.h"

namespace plumbline {

// Thrown through ranks that go on after Aborted. No std::exception, so that the usual handlers let
// it pass.
struct Eviction {};

class Engine {
 public:
  // `contexts` by rank; they outlive the engine, as the scheduler does.
  Engine(const WorldOptions& options, Scheduler& scheduler, const std::vector<Context>& contexts);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Of the running rank:
  std::shared_ptr<Work> Issue(int global_rank, const CollectiveCall& call);
  void Wait(PendingCall& call);
  bool Done(PendingCall& call);
  void Yield(int global_rank);

  // From the world's main loop:
  void OnException(std::exception_ptr exception);
  void OnStuck();
  // All ranks have ended.
  void Finish();

  bool completed() const { return completed_; }  // every rank's main returned
  std::exception_ptr exception() const { return exception_; }
  std::vector<Finding> TakeFindings() { return std::move(findings_); }
  std::vector<CollectiveRecord> TakeRecords() { return matcher_.TakeRecords(); }

 private:
  // A rank's view of a group.
  struct Membership {
    uint64_t hash = 0;
    GroupState* group = nullptr;
    int position = -1;
    int64_t next_sequence = 0;
  };
  struct RankState {
    std::vector<Membership> memberships;  // few: searched in order
    PendingCall* waiting_on = nullptr;
    int refusals = 0;   // calls answered with Aborted
    int64_t polls = 0;  // fruitless Done() since progress_ was `polled_at`
    int64_t polled_at = -1;
  };
  struct ChannelKey {
    uint64_t group;
    int source;
    int destination;
    int tag;
    bool operator==(const ChannelKey&) const = default;
  };
  struct ChannelHash {
    size_t operator()(const ChannelKey& key) const;
  };
  // Messages of one source, destination and tag; at most one queue holds any.
  struct Channel {
    std::deque<std::shared_ptr<PendingCall>> sends;
    std::deque<std::shared_ptr<PendingCall>> recvs;
    int64_t sent = 0;
    int64_t received = 0;
  };

  Membership& FindMembership(int global_rank, const Group& group);
  GroupState& FindGroup(const std::vector<int>& members, const std::string& name, uint64_t hash);
  std::shared_ptr<PendingCall> MakePending(int global_rank, const CollectiveCall& call,
                                           const Membership& membership);
  void JoinCollective(const std::shared_ptr<PendingCall>& call, Membership& membership);
  void JoinChannel(const std::shared_ptr<PendingCall>& call);
  void Launch(PendingCall& call);
  void Wake(PendingCall& call);
  void Complete(PendingCall& call);
  void Release(PendingCall& call);
  void CheckChanged(PendingCall& call);
  void RefuseStranger(int global_rank, const CollectiveCall& call, const Membership& membership);

  // Once the world has stopped: throws, or returns true when an exception is already under way.
  bool Refuse(int global_rank);
  bool CollectFindings();
  void Stop(std::string reason);
  bool AllOnlyPoll();
  std::vector<PendingCall*> InOrderOfIssue() const;  // the unfinished calls
  void ReportDeadlock();
  StuckWorld DescribeStuck() const;
  WaitPoint DescribeWait(const PendingCall& call) const;
  void ReportLeftovers();

  const WorldOptions options_;
  Scheduler& scheduler_;
  const std::vector<Context>& contexts_;
  std::vector<RankState> ranks_;
  std::unordered_map<uint64_t, GroupState> groups_;  // nodes stay where they are
  std::unordered_map<ChannelKey, Channel, ChannelHash> channels_;
  Matcher matcher_;
  std::vector<Finding> findings_;
  PendingCall* first_pending_ = nullptr;  // all unfinished calls, linked
  std::exception_ptr exception_;
  std::string stop_reason_;
  bool stopped_ = false;
  bool completed_ = false;
  int64_t progress_ = 0;   // counts whatever may let a waiting rank go on
  int tired_pollers_ = 0;  // ranks that have polled in vain for long, at this progress_
  int64_t tired_at_ = -1;
};

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_COMM_ENGINE_H_
