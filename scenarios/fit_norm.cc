#include "scenarios/fit_norm.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/error.h"

namespace plumbline {
namespace {

// " + 3 * what" for one more than what counts once; nothing for once.
std::string Surplus(int64_t times, const std::string& what) {
  if (times == 1) return "";
  const int64_t more = times - 1;
  const std::string factor = more == 1 || more == -1 ? "" : fmt::format("{} * ", std::abs(more));
  return fmt::format(" {} {}{}", more < 0 ? '-' : '+', factor, what);
}

std::optional<Formula> FitParts(const Evidence& evidence, const Number& actual,
                                const std::vector<NamedTensor>& squares) {
  const int64_t most = std::min(evidence.mesh->world_size(), 64);
  for (int64_t k = 0; k <= most; ++k) {
    for (int64_t l = 0; l <= most; ++l) {
      const Number sum = static_cast<double>(k) * squares[0].values[0] +
                         static_cast<double>(l) * squares[1].values[0];
      if (!(SquareRoot(sum) == actual)) continue;
      Formula formula;
      formula.text = "of squares: actual = reference" + Surplus(k, squares[0].name) +
                     Surplus(l, squares[1].name);
      formula.cause = k > 1 ? "replicated parameters that count once per rank"
                            : "parameters that are left out, or count more than once";
      return formula;
    }
  }
  return std::nullopt;
}

std::optional<Formula> FitMultiple(const Evidence& evidence, const Number& actual,
                                   const Number& squares) {
  for (const NamedNumber& number : evidence.numbers) {
    if (!(SquareRoot(number.value * squares) == actual)) continue;
    Formula formula;
    formula.text = fmt::format("of squares: actual = {} * reference", ToString(number));
    formula.axes = number.axis;
    formula.cause = "a sum of squares that is scaled, or counts ranks";
    return formula;
  }
  return std::nullopt;
}

// The axes over which the terms of a rank's group sum to squares of this norm.
std::string AxesOfSum(const Evidence& evidence, const TermSet& set, int rank, const Number& norm) {
  for (const std::string& axes : AxesWithRanks(*evidence.mesh)) {
    Number sum = 0;
    for (const RankTerm& term : set.terms) {
      const bool member = evidence.mesh->GroupOf(axes, rank).IndexOf(term.rank) >= 0;
      if (member && term.values.size() == 1) sum += term.values[0];
    }
    if (SquareRoot(sum) == norm) return axes;
  }
  return "";
}

std::optional<Formula> FitGroups(const Evidence& evidence, int rank, const Number& actual) {
  for (const TermSet& set : evidence.reductions) {
    const std::string axes = AxesOfSum(evidence, set, rank, actual);
    const std::string right = AxesOfSum(evidence, set, rank, evidence.reference[0]);
    if (axes.empty() || right.empty()) continue;
    Formula formula;
    formula.text = fmt::format(
        "of squares: actual = sum over {} of the terms; reference = a sum over {} of them", axes,
        right);
    formula.axes = axes;
    formula.cause = fmt::format("a reduction over the wrong group, {}", axes);
    return formula;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Formula> FitNorm(const Evidence& evidence, const std::vector<NamedTensor>& squares) {
  PL_CHECK(squares.size() == 2U);
  const std::vector<int> wrong = evidence.WrongRanks();
  if (wrong.empty()) return std::nullopt;
  const RankPiece& piece = *evidence.PieceOfRank(wrong.front());
  if (piece.values.size() != 1 || !piece.values[0].exact()) return std::nullopt;
  if (auto formula = FitParts(evidence, piece.values[0], squares)) return formula;
  const Number sum = squares[0].values[0] + squares[1].values[0];
  if (auto formula = FitMultiple(evidence, piece.values[0], sum)) return formula;
  return FitGroups(evidence, piece.rank, piece.values[0]);
}

}  // namespace plumbline
