#include "fingerprint/compare_calls.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/fingerprint/fingerprint_testing.h"

namespace plumbline {
namespace {

using fingerprint_testing::AllReduceOf;

CollectiveRecord A(std::string group = "dp") { return AllReduceOf(0, group, {0, 1}, 3, "w"); }

// The state when one of two equal calls is changed, which must not depend on the side.
MatchState After(const std::function<void(CollectiveRecord&)>& change, std::string group = "dp") {
  const CollectiveRecord a = A(group);
  CollectiveRecord b = AllReduceOf(1, group, {0, 1}, 3, "w");
  change(b);
  const MatchState state = CompareCalls(a, b);
  EXPECT_EQ(state, CompareCalls(b, a));
  return state;
}

TEST(CompareCalls, EachFieldHasItsState) {
  EXPECT_EQ(After([](CollectiveRecord&) {}), MatchState::kMatched);
  EXPECT_EQ(After([](CollectiveRecord& r) { r.op = "all_gather"; }), MatchState::kType);
  EXPECT_EQ(After([](CollectiveRecord& r) { r.input_shape = {9}; }), MatchState::kSize);
  EXPECT_EQ(After([](CollectiveRecord& r) { r.input_shape = {4, 2}; }), MatchState::kMatched);
  EXPECT_EQ(After([](CollectiveRecord& r) { r.dtype = DType::kF32; }), MatchState::kDType);
  EXPECT_EQ(After([](CollectiveRecord& r) { r.reduce_op = "avg"; }), MatchState::kReduceOp);
  EXPECT_EQ(After([](CollectiveRecord& r) { r.peer = 1; }), MatchState::kRoot);
  EXPECT_EQ(After([](CollectiveRecord& r) { r.site.step = 2; }), MatchState::kLogicalId);
  EXPECT_EQ(After([](CollectiveRecord& r) { r.site.phase = Phase::kBackward; }),
            MatchState::kLogicalId);
  EXPECT_EQ(After([](CollectiveRecord& r) { r.site.tensor = "v"; }), MatchState::kLogicalId);
  EXPECT_EQ(After([](CollectiveRecord& r) { r.site.quantity = Quantity::kGradient; }),
            MatchState::kLogicalId);
}

TEST(CompareCalls, MicrobatchesAgreeOnlyWhereTheRanksShareThem) {
  const auto other_microbatch = [](CollectiveRecord& r) { r.site.microbatch = 5; };
  EXPECT_EQ(After(other_microbatch, "dp"), MatchState::kMatched);
  EXPECT_EQ(After(other_microbatch, "dp-cp"), MatchState::kMatched);
  EXPECT_EQ(After(other_microbatch, "world"), MatchState::kMatched);
  EXPECT_EQ(After(other_microbatch, "tp"), MatchState::kLogicalId);
  EXPECT_EQ(After(other_microbatch, "cp"), MatchState::kLogicalId);
}

TEST(CompareCalls, EarlierStatesTakePrecedence) {
  EXPECT_EQ(After([](CollectiveRecord& r) {
              r.reduce_op = "avg";
              r.dtype = DType::kF32;
              r.site.tensor = "v";
            }),
            MatchState::kDType);
}

TEST(CompareCalls, BarriersHaveNoPayload) {
  CollectiveRecord a = A();
  CollectiveRecord b = A();
  a.op = b.op = "barrier";
  b.input_shape = {1};
  EXPECT_EQ(CompareCalls(a, b), MatchState::kMatched);
}

CollectiveRecord Exchange(int rank, std::vector<int64_t> in, std::vector<int64_t> out) {
  CollectiveRecord record = AllReduceOf(rank, "ep", {0, 1}, 0, "tokens");
  record.op = "all_to_all";
  record.reduce_op = {};
  record.input_shape = {in[0] + in[1], 3};
  record.output_shape = {out[0] + out[1], 3};
  record.input_splits = std::move(in);
  record.output_splits = std::move(out);
  return record;
}

TEST(CompareCalls, SplitsFitWhenWhatIsSentIsExpected) {
  const CollectiveRecord a = Exchange(0, {2, 5}, {2, 1});
  EXPECT_EQ(CompareCalls(a, Exchange(1, {1, 4}, {5, 4})), MatchState::kMatched);
  EXPECT_EQ(CompareCalls(a, Exchange(1, {2, 4}, {5, 4})), MatchState::kSplit);
  EXPECT_EQ(CompareCalls(a, Exchange(1, {1, 4}, {4, 4})), MatchState::kSplit);
  CollectiveRecord wide = Exchange(1, {1, 4}, {5, 4});
  wide.input_shape[1] = 4;
  EXPECT_EQ(CompareCalls(a, wide), MatchState::kSize);
  // A uniform call is one with equal splits.
  CollectiveRecord uniform = Exchange(1, {1, 1}, {5, 5});
  uniform.input_splits.clear();
  uniform.output_splits.clear();
  EXPECT_EQ(CompareCalls(a, uniform), MatchState::kMatched);
}

TEST(CompareEnds, ChecksSizeTypeAndIdentity) {
  CollectiveRecord send = A("pp");
  send.op = "send";
  CollectiveRecord recv = AllReduceOf(1, "pp", {0, 1}, 0, "w");
  recv.op = "recv";
  recv.input_shape = {};
  EXPECT_EQ(CompareEnds(send, recv), MatchState::kMatched);
  CollectiveRecord changed = recv;
  changed.output_shape = {7};
  EXPECT_EQ(CompareEnds(send, changed), MatchState::kSize);
  changed = recv;
  changed.dtype = DType::kI64;
  EXPECT_EQ(CompareEnds(send, changed), MatchState::kDType);
  changed = recv;
  changed.site.microbatch = 1;
  EXPECT_EQ(CompareEnds(send, changed), MatchState::kLogicalId);
}

TEST(MatchStateName, NamesAreDistinct) {
  std::set<std::string_view> names;
  for (int state = 0; state <= static_cast<int>(MatchState::kDeadlock); ++state) {
    names.insert(Name(static_cast<MatchState>(state)));
  }
  EXPECT_EQ(names.size(), 14u);
}

}  // namespace
}  // namespace plumbline
