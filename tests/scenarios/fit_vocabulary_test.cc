#include "scenarios/fit_vocabulary.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/scenarios/evidence_testing.h"

namespace plumbline {
namespace {

constexpr int64_t kVocab = 7;
constexpr size_t kWidth = 3;

Evidence Embedding() {
  Evidence evidence = MakeEvidence({2, 2, kWidth}, {});
  VocabularyEvidence vocabulary;
  vocabulary.vocab = kVocab;
  vocabulary.rows_per_rank = 4;
  vocabulary.tokens = {6, 1, 5, 4};
  vocabulary.table = RandomValues(kVocab * kWidth, 9);
  evidence.vocabulary = vocabulary;
  return evidence;
}

TEST(FitVocabularyTest, ShiftedRowsOfTheTableAreFound) {
  Evidence evidence = Embedding();
  const Values& table = evidence.vocabulary->table;
  Values held;
  for (const int64_t token : evidence.vocabulary->tokens) {
    for (size_t h = 0; h < kWidth; ++h) {
      held.push_back(token >= 4 ? table[static_cast<size_t>(token - 4) * kWidth + h] : 0);
    }
  }
  Hold(evidence, [&](const RankPiece&) { return held; });
  EXPECT_EQ(FitVocabulary(evidence)->text, "actual = row (token - 4) of the table, 0 outside");
}

class FitLossTest : public ::testing::Test {
 protected:
  FitLossTest() : evidence_(MakeEvidence({2, 1}, {})) {
    VocabularyEvidence vocabulary;
    vocabulary.vocab = kVocab;
    vocabulary.rows_per_rank = 4;
    vocabulary.labels = {5, 2};
    vocabulary.logits = RandomValues(2 * kVocab, 9);
    vocabulary.label_smoothing = 0.1;
    evidence_.vocabulary = vocabulary;
  }
  double Logit(size_t position, int64_t column) const {
    return evidence_.vocabulary->logits[position * kVocab + static_cast<size_t>(column)].real();
  }
  // -(1 - s) log p_y - spread * sum over j other than y of log p_j.
  double Loss(size_t position, double target_logit, int64_t columns, double spread) const {
    double sum = 0;
    double others = 0;
    for (int64_t v = 0; v < columns; ++v) sum += std::exp(Logit(position, v));
    const double log_sum = std::log(sum);
    for (int64_t v = 0; v < columns; ++v) others += Logit(position, v);
    const double target = log_sum - target_logit;
    return 0.9 * target + spread * (kVocab * log_sum - others - target);
  }

  Evidence evidence_;
};

TEST_F(FitLossTest, ShiftedTargetsAreFound) {
  // Columns 0..2 stand for classes 4..6; label 5 is at column 1, label 2 nowhere.
  const Values held = {Loss(0, Logit(0, 1), 3, 0.1 / 6), Loss(1, 0, 3, 0.1 / 6)};
  Hold(evidence_, [&](const RankPiece&) { return held; });
  EXPECT_EQ(FitVocabulary(evidence_)->text,
            "actual = loss of target (label - 4), 0 outside the vocabulary");
}

TEST_F(FitLossTest, SmoothingOverTheLocalVocabularyIsFound) {
  const Values held = {Loss(0, Logit(0, 5), kVocab, 0.1 / 3),
                       Loss(1, Logit(1, 2), kVocab, 0.1 / 3)};
  Hold(evidence_, [&](const RankPiece&) { return held; });
  EXPECT_EQ(FitVocabulary(evidence_)->text, "actual = loss smoothed over 4 classes");
}

TEST_F(FitLossTest, OtherLossesFitNothing) {
  Hold(evidence_, [](const RankPiece&) { return Values{0.5, 0.25}; });
  EXPECT_FALSE(FitVocabulary(evidence_));
}

TEST(FitVocabularyTest, OtherTensorsHaveNoVocabulary) {
  Evidence evidence = MakeEvidence({4}, {});
  HoldOnRank(evidence, 0, {1, 2, 3, 4});
  EXPECT_FALSE(FitVocabulary(evidence));
}

}  // namespace
}  // namespace plumbline
