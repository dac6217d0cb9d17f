#include "parallel/data/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/rng.h"

namespace plumbline {
namespace {

using testing::ElementsAre;

// Start and end of each collective.
std::vector<std::string> Collectives(const Timeline& timeline) {
  std::vector<std::string> lines;
  for (const CollectiveSpan& span : timeline.collectives) {
    lines.push_back((span.gather ? "gather " : "reduce ") + std::to_string(span.bucket) + ": " +
                    std::to_string(span.ready) + " " + std::to_string(span.start) + ".." +
                    std::to_string(span.end) + " wait " + std::to_string(span.wait));
  }
  return lines;
}

// Two units of 10 ns forward and 20 backward. Bucket 0 has unit 1, takes 15 to reduce and 8 to
// gather; bucket 1 has unit 0, takes 25 and 12. One microbatch.
TimelineInput Small() {
  TimelineInput input;
  input.chunks = {{{{"first", 10, 20}, {"second", 10, 20}}, {{1, 15, 8}, {0, 25, 12}}}};
  input.passes = {{PassKind::kForward, 0, 0}, {PassKind::kBackward, 0, 0}};
  return input;
}

// Gathers 0..12 and 12..20, forward 20..40, backward of unit 1 until 60 and of unit 0 until 80,
// reductions 80..95 and 95..120. Nothing is hidden of 12 + 8 + 15 + 25 = 60.
TEST(TimelineTest, WithoutOverlapEverythingIsExposed) {
  const Timeline timeline = MakeTimeline(Small(), {false, false});
  EXPECT_THAT(Collectives(timeline),
              ElementsAre("gather 1: 0 0..12 wait 12", "gather 0: 12 12..20 wait 8",
                          "reduce 0: 60 80..95 wait 15", "reduce 1: 80 95..120 wait 25"));
  EXPECT_EQ(timeline.makespan, 120);
  EXPECT_EQ(timeline.communication, 60);
  EXPECT_EQ(timeline.overlapped, 0);
  EXPECT_EQ(timeline.exposed(), 60);
}

// Bucket 0 is reduced at 60..75 beside the backward of unit 0 (60..80): 15 hidden. Bucket 1 is
// complete at 80, and runs alone until 105.
TEST(TimelineTest, OverlappedReductionsHideBehindTheBackward) {
  const Timeline timeline = MakeTimeline(Small(), {true, false});
  EXPECT_THAT(Collectives(timeline),
              ElementsAre("gather 1: 0 0..12 wait 12", "gather 0: 12 12..20 wait 8",
                          "reduce 0: 60 60..75 wait 0", "reduce 1: 80 80..105 wait 25"));
  EXPECT_EQ(timeline.makespan, 105);
  EXPECT_EQ(timeline.exposed(), 45);
}

// Unit 0 waits for bucket 1 until 12, and then bucket 0 is gathered at 12..20 beside it (12..22): 8
// hidden. Backward 32..72, reductions 72..87 and 87..112.
TEST(TimelineTest, OverlappedGathersHideBehindTheForward) {
  const Timeline timeline = MakeTimeline(Small(), {false, true});
  EXPECT_THAT(Collectives(timeline),
              ElementsAre("gather 1: 0 0..12 wait 12", "gather 0: 12 12..20 wait 0",
                          "reduce 0: 52 72..87 wait 15", "reduce 1: 72 87..112 wait 25"));
  EXPECT_EQ(timeline.makespan, 112);
  EXPECT_EQ(timeline.exposed(), 52);
}

// Both: 8 and 15 hidden of 60; backward of unit 1 until 52, reductions 52..67 and 72..97.
TEST(TimelineTest, BothHideBoth) {
  const Timeline timeline = MakeTimeline(Small(), {true, true});
  EXPECT_THAT(Collectives(timeline),
              ElementsAre("gather 1: 0 0..12 wait 12", "gather 0: 12 12..20 wait 0",
                          "reduce 0: 52 52..67 wait 0", "reduce 1: 72 72..97 wait 25"));
  EXPECT_EQ(timeline.makespan, 97);
  EXPECT_EQ(timeline.exposed(), 37);
}

// A slow gather holds the second unit up: bucket 0 takes 30, so that it runs 12..42 and unit 1
// starts 20 late.
TEST(TimelineTest, AUnitWaitsForItsOwnWeights) {
  TimelineInput input = Small();
  input.chunks[0].buckets[0].gather_ns = 30;
  const Timeline timeline = MakeTimeline(input, {true, true});
  EXPECT_EQ(timeline.collectives[1].wait, 20);
  EXPECT_EQ(timeline.compute[1].start, 42);
}

TEST(TimelineTest, OnlyTheLastMicrobatchIsReduced) {
  TimelineInput input = Small();
  input.passes = {{PassKind::kForward, 0, 0},
                  {PassKind::kBackward, 0, 0},
                  {PassKind::kForward, 0, 1},
                  {PassKind::kBackward, 0, 1}};
  const Timeline timeline = MakeTimeline(input, {true, true});
  ASSERT_EQ(timeline.collectives.size(), 4u);
  // The first microbatch is through at 12 + 20 + 40 = 72; the second's unit 1 at 72 + 20 + 20.
  EXPECT_EQ(timeline.collectives[2].start, 112);
}

// The weight part comes later, and is half of 20 for each unit: unit 1 at 20 + 20 + 20 + 10.
TEST(TimelineTest, GradientsOfASplitBackwardComeWithItsWeightPart) {
  TimelineInput input = Small();
  input.passes = {{PassKind::kForward, 0, 0},
                  {PassKind::kBackwardInput, 0, 0},
                  {PassKind::kBackwardWeight, 0, 0}};
  const Timeline timeline = MakeTimeline(input, {true, false});
  EXPECT_EQ(timeline.collectives[2].ready, 20 + 20 + 20 + 10);
}

TEST(TimelineTest, WhatTakesNoTimeIsNoCollective) {
  TimelineInput input = Small();
  for (TimelineBucket& bucket : input.chunks[0].buckets) bucket.gather_ns = 0;
  EXPECT_EQ(MakeTimeline(input, {false, true}).collectives.size(), 2u);
  for (TimelineBucket& bucket : input.chunks[0].buckets) bucket.reduce_ns = 0;
  const Timeline timeline = MakeTimeline(input, {true, true});
  EXPECT_TRUE(timeline.collectives.empty());
  EXPECT_EQ(timeline.makespan, 60);
}

TEST(TimelineTest, TimesAreChecked) {
  TimelineInput input = Small();
  input.chunks[0].units[0].forward_ns = -1;
  EXPECT_THROW(MakeTimeline(input, {}), InvalidArgument);
  input = Small();
  input.chunks[0].buckets[0].reduce_ns = int64_t{1} << 62;
  EXPECT_THROW(MakeTimeline(input, {}), InvalidArgument);
}

TEST(TimelineTest, AblationsHaveNames) {
  std::vector<std::string> names;
  for (const Overlap& overlap : kAllOverlaps) names.emplace_back(Name(overlap));
  EXPECT_THAT(names, ElementsAre("none", "grad", "param", "both"));
}

// A random stage: up to three chunks of up to six units, buckets over consecutive units.
TimelineInput Random(uint64_t seed) {
  const RandomStream stream(seed);
  uint64_t drawn = 0;
  const auto below = [&](int64_t bound) {
    return static_cast<int64_t>(stream.Bits(drawn++) % static_cast<uint64_t>(bound));
  };
  TimelineInput input;
  const int64_t chunks = 1 + below(3);
  for (int64_t c = 0; c < chunks; ++c) {
    TimelineChunk& chunk = input.chunks.emplace_back();
    const int64_t units = 1 + below(6);
    for (int64_t u = 0; u < units; ++u) {
      chunk.units.push_back({"unit", below(50), below(100)});
    }
    for (int64_t u = units; u-- > 0;) {
      if (u > 0 && below(2) == 0) continue;
      chunk.buckets.push_back({static_cast<int>(u), below(80), below(80)});
    }
  }
  const int64_t microbatches = 1 + below(3);
  for (int m = 0; m < microbatches; ++m) {
    for (int c = 0; c < chunks; ++c) input.passes.push_back({PassKind::kForward, c, m});
    for (int c = static_cast<int>(chunks); c-- > 0;) {
      input.passes.push_back({PassKind::kBackward, c, m});
    }
  }
  return input;
}

TEST(TimelineLawTest, MoreOverlapExposesNoMore) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const TimelineInput input = Random(seed);
    const Timeline none = MakeTimeline(input, {false, false});
    const Timeline grad = MakeTimeline(input, {true, false});
    const Timeline param = MakeTimeline(input, {false, true});
    const Timeline both = MakeTimeline(input, {true, true});
    EXPECT_LE(both.exposed(), grad.exposed()) << seed;
    EXPECT_LE(both.exposed(), param.exposed()) << seed;
    EXPECT_LE(grad.exposed(), none.exposed()) << seed;
    EXPECT_LE(param.exposed(), none.exposed()) << seed;
    EXPECT_EQ(none.exposed(), none.communication) << seed;
  }
}

TEST(TimelineLawTest, ExposedTimeIsTheTimeThatIsNotComputed) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const TimelineInput input = Random(seed);
    for (const Overlap& overlap : kAllOverlaps) {
      const Timeline timeline = MakeTimeline(input, overlap);
      int64_t computed = 0;
      int64_t at = 0;
      for (const ComputeSpan& span : timeline.compute) {
        EXPECT_GE(span.start, at) << seed;
        at = span.end;
        computed += span.end - span.start;
      }
      int64_t communicated = 0;
      int64_t waited = 0;
      at = 0;
      for (const CollectiveSpan& span : timeline.collectives) {
        EXPECT_GE(span.start, at) << seed;
        EXPECT_GE(span.start, span.ready) << seed;
        at = span.end;
        communicated += span.end - span.start;
        waited += span.wait;
      }
      EXPECT_LE(timeline.communication, communicated) << seed;
      EXPECT_GE(timeline.exposed(), 0) << seed;
      EXPECT_EQ(timeline.makespan, computed + waited) << seed;
      // Compute stands still for nothing but communication.
      EXPECT_EQ(timeline.exposed(), waited) << seed;
    }
  }
}

}  // namespace
}  // namespace plumbline
