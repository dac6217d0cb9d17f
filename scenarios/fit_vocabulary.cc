#include "scenarios/fit_vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

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
      whole.push_back(inside ? vocabulary.table[static_cast<size_t>(row * width + h)]
                             : Number(0.0));
    }
  }
  return whole;
}

// The logits of one position that count when the ranks take column c for class c + shift: those of
// classes inside the vocabulary.
struct Position {
  Number log_sum;  // log sum exp
  Number sum_of_logits;
};

template <class T>
Position PositionAs(const std::vector<T>& logits) {
  using Scalar = ScalarTraits<T>;
  Position result;
  if (logits.empty()) return result;
  auto largest = Scalar::LowestScore();
  for (const T& logit : logits) largest = Scalar::Max(largest, Scalar::ToScore(logit));
  T sum = Scalar::FromInt(0);
  T plain = Scalar::FromInt(0);
  for (const T& logit : logits) {
    sum += Scalar::ExpShifted(Scalar::ToScore(logit), largest);
    plain += logit;
  }
  result.log_sum = Scalar::Log(Scalar::MakeLogSum(largest, sum));
  result.sum_of_logits = plain;
  return result;
}

Position PositionOf(const VocabularyEvidence& vocabulary, const Number* logits, int64_t shift) {
  const int64_t end = std::min(vocabulary.vocab, vocabulary.vocab - shift);
  return DispatchScalar(logits[0].dtype(), [&]<class T>() {
    std::vector<T> counted;
    for (int64_t v = 0; v < end; ++v) {
      if constexpr (kIsField<T>) {
        counted.push_back(T{logits[v].residue()});
      } else {
        counted.push_back(static_cast<T>(logits[v].real()));
      }
    }
    return PositionAs(counted);
  });
}

// The loss -(1 - s) log p_y - spread * sum over the other j of log p_j, when the target's logit is
// read `shift` before its place and is 0 outside the vocabulary.
Values Losses(const VocabularyEvidence& vocabulary, int64_t shift, const Number& spread) {
  Values whole;
  for (size_t i = 0; i < vocabulary.labels.size(); ++i) {
    const Number* logits = vocabulary.logits.data() + i * static_cast<size_t>(vocabulary.vocab);
    const Position position = PositionOf(vocabulary, logits, shift);
    const int64_t column = vocabulary.labels[i] - shift;
    const bool inside = column >= 0 && column < vocabulary.vocab;
    const Number target = position.log_sum - (inside ? logits[column] : Number(0.0));
    // The program counts all classes, whichever columns it sums.
    const Number all =
        static_cast<double>(vocabulary.vocab) * position.log_sum - position.sum_of_logits;
    whole.push_back((1.0 - vocabulary.label_smoothing) * target + spread * (all - target));
  }
  return whole;
}

// label_smoothing / (classes - 1).
Number Spread(const VocabularyEvidence& vocabulary, int64_t classes) {
  const DType dtype = vocabulary.label_smoothing.dtype();
  return vocabulary.label_smoothing / Fraction(dtype, std::max<int64_t>(classes - 1, 1), 1);
}

}  // namespace

std::optional<Formula> FitVocabulary(const Evidence& evidence) {
  if (!evidence.vocabulary) return std::nullopt;
  const VocabularyEvidence& vocabulary = *evidence.vocabulary;
  const int64_t rows = vocabulary.rows_per_rank;
  const Number spread = Spread(vocabulary, vocabulary.vocab);
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
  if (!vocabulary.logits.empty() && !(vocabulary.label_smoothing == 0.0)) {
    if (auto formula = Fit(evidence, Losses(vocabulary, 0, Spread(vocabulary, rows)))) {
      formula->text = fmt::format("actual = loss smoothed over {} classes", rows);
      formula->cause = "label smoothing with the vocabulary of one rank";
      return formula;
    }
  }
  return std::nullopt;
}

}  // namespace plumbline
