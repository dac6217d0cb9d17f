#include "scenarios/fit_vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace plumbline {
namespace {

std::optional<Formula> Fit(const Evidence& evidence, const Values& whole) {
  Formula formula;
  formula.residual = ResidualOf(evidence, StackActual(evidence), StackWhole(evidence, whole));
  formula.axes = "tp";
  return Explains(evidence, formula.residual) ? std::optional<Formula>(formula) : std::nullopt;
}

// The embedding's output [positions, H] when each token reads the row `shift` before its own.
Values ShiftedRows(const VocabularyEvidence& vocabulary, int64_t shift) {
  const int64_t width = static_cast<int64_t>(vocabulary.table.size()) / vocabulary.vocab;
  Values whole;
  for (const int64_t token : vocabulary.tokens) {
    const int64_t row = token - shift;
    for (int64_t h = 0; h < width; ++h) {
      const bool inside = row >= 0 && row < vocabulary.vocab;
      whole.push_back(inside ? vocabulary.table[static_cast<size_t>(row * width + h)] : 0);
    }
  }
  return whole;
}

// The logits of one position that count when the ranks take column c for class c + shift: those of
// classes inside the vocabulary.
struct Position {
  double log_sum = 0;  // log sum exp
  double sum_of_logits = 0;
};

Position PositionOf(const VocabularyEvidence& vocabulary, const double* logits, int64_t shift) {
  const int64_t end = std::min(vocabulary.vocab, vocabulary.vocab - shift);
  Position result;
  if (end < 1) return result;
  const double largest = *std::max_element(logits, logits + end);
  double sum = 0;
  for (int64_t v = 0; v < end; ++v) {
    sum += std::exp(logits[v] - largest);
    result.sum_of_logits += logits[v];
  }
  result.log_sum = largest + std::log(sum);
  return result;
}

// The loss -(1 - s) log p_y - spread * sum over the other j of log p_j, when the target's logit is
// read `shift` before its place and is 0 outside the vocabulary.
Values Losses(const VocabularyEvidence& vocabulary, int64_t shift, double spread) {
  Values whole;
  for (size_t i = 0; i < vocabulary.labels.size(); ++i) {
    const double* logits = vocabulary.logits.data() + i * static_cast<size_t>(vocabulary.vocab);
    const Position position = PositionOf(vocabulary, logits, shift);
    const int64_t column = vocabulary.labels[i] - shift;
    const bool inside = column >= 0 && column < vocabulary.vocab;
    const double target = position.log_sum - (inside ? logits[column] : 0);
    // The program counts all classes, whichever columns it sums.
    const double all =
        static_cast<double>(vocabulary.vocab) * position.log_sum - position.sum_of_logits;
    whole.push_back((1 - vocabulary.label_smoothing) * target + spread * (all - target));
  }
  return whole;
}

}  // namespace

std::optional<Formula> FitVocabulary(const Evidence& evidence) {
  if (!evidence.vocabulary) return std::nullopt;
  const VocabularyEvidence& vocabulary = *evidence.vocabulary;
  const int64_t rows = vocabulary.rows_per_rank;
  const double spread =
      vocabulary.label_smoothing / static_cast<double>(std::max<int64_t>(vocabulary.vocab - 1, 1));
  for (const int64_t shift : {rows, -rows, int64_t{1}, int64_t{-1}}) {
    if (!vocabulary.table.empty()) {
      if (auto formula = Fit(evidence, ShiftedRows(vocabulary, shift))) {
        formula->text = fmt::format("actual = row (token {} {}) of the table, 0 outside",
                                    shift > 0 ? '-' : '+', std::abs(shift));
        formula->cause = "the vocabulary mask of the embedding: its first row is off";
        return formula;
      }
    }
    if (!vocabulary.logits.empty()) {
      if (auto formula = Fit(evidence, Losses(vocabulary, shift, spread))) {
        formula->text =
            fmt::format("actual = loss of target (label {} {}), 0 outside the vocabulary",
                        shift > 0 ? '-' : '+', std::abs(shift));
        formula->cause = "the target mask of the cross entropy: its first row is off";
        return formula;
      }
    }
  }
  if (!vocabulary.logits.empty() && vocabulary.label_smoothing > 0) {
    const double local =
        vocabulary.label_smoothing / static_cast<double>(std::max<int64_t>(rows - 1, 1));
    if (auto formula = Fit(evidence, Losses(vocabulary, 0, local))) {
      formula->text = fmt::format("actual = loss smoothed over {} classes", rows);
      formula->cause = "label smoothing with the vocabulary of one rank";
      return formula;
    }
  }
  return std::nullopt;
}

}  // namespace plumbline
