#include "oracle/attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/oracle/operator_check.h"

namespace plumbline {
namespace {

constexpr int64_t kSequence = 7;
constexpr int64_t kBatch = 2;
constexpr int64_t kChannels = 3;

struct Case {
  std::string name;
  int64_t heads;
  int64_t groups;
  bool packed;
  double dropout;
};

AttentionShape ShapeOf(const Case& c) {
  AttentionShape shape = {kBatch, c.heads, c.groups, kChannels, {}, c.dropout};
  const std::vector<int64_t> whole(kSequence, 0);
  shape.first_key = {whole, whole};
  if (c.packed) shape.first_key = {{0, 0, 0, 3, 4, 4, 4}, {0, 1, 1, 1, 1, 1, 6}};
  return shape;
}

std::vector<KeepMask> KeepOf(const Case& c) {
  return AttentionKeepMasks({11, 1, {40, 41}}, "attention", c.dropout, c.heads, kSequence);
}

Matrices<double> Inputs(const Case& c) {
  return {RandomMatrix(1, kSequence * kBatch, c.heads * kChannels),
          RandomMatrix(2, kSequence * kBatch, c.groups * kChannels),
          RandomMatrix(3, kSequence * kBatch, c.groups * kChannels)};
}

template <class T>
Matrix<T> Forward(const Case& c, const std::vector<Matrix<T>>& in) {
  AttentionSaved<T> saved;
  saved.keep = KeepOf(c);
  return AttentionForward(ShapeOf(c), in[0], in[1], in[2], saved);
}

class AttentionTest : public testing::TestWithParam<Case> {};

// One query at a time, one key at a time, by the definition.
TEST_P(AttentionTest, ForwardIsTheDefinition) {
  const Case& c = GetParam();
  const AttentionShape shape = ShapeOf(c);
  const std::vector<KeepMask> keep = KeepOf(c);
  const Matrices<double> in = Inputs(c);
  const Matrix<double> out = Forward(c, in);
  for (int64_t b = 0; b < kBatch; ++b) {
    for (int64_t head = 0; head < c.heads; ++head) {
      const int64_t group = head / (c.heads / c.groups);
      for (int64_t i = 0; i < kSequence; ++i) {
        const auto q = in[0].row(i * kBatch + b).segment(head * kChannels, kChannels);
        double z = 0;
        Matrix<double> sum = Matrix<double>::Zero(1, kChannels);
        for (int64_t j = 0; j <= i; ++j) {
          if (shape.first_key[b][i] > j) continue;
          const auto k = in[1].row(j * kBatch + b).segment(group * kChannels, kChannels);
          const auto v = in[2].row(j * kBatch + b).segment(group * kChannels, kChannels);
          const double e = std::exp(q.dot(k) / std::sqrt(3.0));
          z += e;
          const bool kept = keep.empty() || keep[b * c.heads + head](i, j) != 0;
          if (kept) sum += e / (1 - c.dropout) * v;
        }
        const auto actual = out.row(i * kBatch + b).segment(head * kChannels, kChannels);
        EXPECT_LE((actual - sum / z).cwiseAbs().maxCoeff(), 1e-14) << b << head << i;
      }
    }
  }
}

TEST_P(AttentionTest, BackwardIsTheDerivativeOfForward) {
  const Case& c = GetParam();
  const auto forward = [&](const auto& in) { return Forward(c, in); };
  const auto backward = [&](const Matrix<double>& dy, const Matrices<double>& in) {
    AttentionSaved<double> saved;
    saved.keep = KeepOf(c);
    AttentionForward(ShapeOf(c), in[0], in[1], in[2], saved);
    const auto d = AttentionBackward(ShapeOf(c), dy, in[0], in[1], in[2], saved);
    return Matrices<double>{d.dq, d.dk, d.dv};
  };
  EXPECT_LE(WorstJvpError(Inputs(c), forward, backward), kJvpBound);
  // Another scale of the scores in the backward is seen.
  const auto wrong = [&](const Matrix<double>& dy, const Matrices<double>& in) {
    Matrices<double> gradients = backward(dy, in);
    gradients[0] *= std::sqrt(3.0);
    return gradients;
  };
  EXPECT_GT(WorstJvpError(Inputs(c), forward, wrong), 1e-3);
}

TEST_P(AttentionTest, LaterKeysChangeNothing) {
  const Case& c = GetParam();
  Matrices<double> in = Inputs(c);
  const Matrix<double> before = Forward(c, in);
  constexpr int64_t kFrom = 5;
  for (size_t input : {1, 2}) in[input].bottomRows((kSequence - kFrom) * kBatch).array() += 1;
  const Matrix<double> after = Forward(c, in);
  EXPECT_EQ(after.topRows(kFrom * kBatch), before.topRows(kFrom * kBatch));
  EXPECT_NE(after, before);
}

TEST_P(AttentionTest, OtherDocumentsChangeNothing) {
  const Case& c = GetParam();
  Matrices<double> in = Inputs(c);
  const Matrix<double> before = Forward(c, in);
  for (size_t input : {1, 2}) in[input].row(0).array() += 1;  // position 0 of sample 0
  const Matrix<double> after = Forward(c, in);
  for (int64_t i = 0; i < kSequence; ++i) {
    const bool sees = ShapeOf(c).first_key[0][static_cast<size_t>(i)] == 0;
    if (!sees) {
      EXPECT_EQ(after.row(i * kBatch), before.row(i * kBatch)) << i;
    }
    EXPECT_EQ(after.row(i * kBatch + 1), before.row(i * kBatch + 1)) << i;
  }
  EXPECT_NE(after.row(0), before.row(0));
}

INSTANTIATE_TEST_SUITE_P(Cases, AttentionTest,
                         testing::Values(Case{"mha", 4, 4, false, 0}, Case{"gqa", 4, 2, false, 0},
                                         Case{"mqa", 3, 1, false, 0},
                                         Case{"packed_gqa", 4, 2, true, 0},
                                         Case{"dropout_packed_gqa", 4, 2, true, 0.3}),
                         [](const auto& info) { return info.param.name; });

TEST(AttentionTest, GroupedQueriesAreRepeatedKeysAndValues) {
  const Case grouped = {"", 4, 2, false, 0};
  const Case full = {"", 4, 4, false, 0};
  const Matrices<double> in = Inputs(grouped);
  Matrices<double> repeated = {in[0]};
  for (size_t input : {1, 2}) {
    Matrix<double> wide(in[input].rows(), 4 * kChannels);
    for (int64_t head = 0; head < 4; ++head) {
      wide.middleCols(head * kChannels, kChannels) =
          in[input].middleCols(head / 2 * kChannels, kChannels);
    }
    repeated.push_back(wide);
  }
  EXPECT_EQ(Forward(grouped, in), Forward(full, repeated));
}

}  // namespace
}  // namespace plumbline
