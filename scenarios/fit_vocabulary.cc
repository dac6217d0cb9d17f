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

// What the cross entropy of a position is made of.
struct Position {
  double log_sum = 0;  // log sum exp of the logits
  double sum_of_logits = 0;
  const double* logits = nullptr;
};

Position PositionOf(const VocabularyEvidence& vocabulary, size_t position) {
  Position result;
  result.logits = vocabulary.logits.data() + position * static_cast<size_t>(vocabulary.vocab);
  const double largest = *std::max_element(result.logits, result.logits + vocabulary.vocab);
  double sum = 0;
  for (int64_t v = 0; v < vocabulary.vocab; ++v) {
    sum += std::exp(result.logits[v] - largest);
    result.sum_of_logits += result.logits[v];
  }
  result.log_sum = largest + std::log(sum);
  return result;
}

// The loss -(1 - s) log p_y - spread * sum over the other j of log p_j, when the target's logit is
// read `shift` before its place and is 0 outside the vocabulary.
Values Losses(const VocabularyEvidence& vocabulary, int64_t shift, double spread) {
  Values whole;
  const auto vocab = static_cast<double>(vocabulary.vocab);
  for (size_t i = 0; i < vocabulary.labels.size(); ++i) {
    const Position position = PositionOf(vocabulary, i);
    const int64_t row = vocabulary.labels[i] - shift;
    const bool inside = row >= 0 && row < vocabulary.vocab;
    const double target = position.log_sum - (inside ? position.logits[row] : 0);
    const double all = vocab * position.log_sum - position.sum_of_logits;
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
