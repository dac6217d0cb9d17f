#include "scenarios/fit_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace plumbline {
namespace {

std::string CauseOfMissingReduction(const Evidence& evidence, const std::string& axes) {
  if (evidence.site.quantity == Quantity::kMainGrad && axes == "tp") {
    return "gradients of a parameter that tp ranks replicate are not summed over tp (sequence "
           "parallelism)";
  }
  if (axes == "embedding") {
    return "the gradients of a word table that the first and the last stage hold are not summed "
           "over them";
  }
  return fmt::format("a reduction over {} is missing", axes);
}

// "stage 0 lacks the term of stage 3, stage 3 that of stage 0".
std::string MissingTerms(const Mesh& mesh) {
  const int last = mesh.extent("pp") - 1;
  return fmt::format("stage 0 lacks the term of stage {0}, stage {0} that of stage 0", last);
}

// The sum over the rank's group of what its members hold, when all hold the same piece.
std::optional<Values> SumOfActual(const Evidence& evidence, const RankPiece& piece,
                                  const std::string& axes) {
  Values sum(piece.values.size(), 0.0);
  for (const int member : evidence.mesh->GroupOf(axes, piece.rank).members) {
    const RankPiece* other = evidence.PieceOfRank(member);
    if (other == nullptr || other->index != piece.index) return std::nullopt;
    sum = AddScaled(sum, 1, other->values);
  }
  return sum;
}

// What `rank` put in for a piece.
std::optional<Values> TermFor(const Evidence& evidence, const TermSet& set, int rank,
                              const RankPiece& piece) {
  for (const RankTerm& term : set.terms) {
    if (term.rank != rank) continue;
    const size_t n = piece.values.size();
    const Group& group = evidence.mesh->GroupOf(set.group_axes, piece.rank);
    const auto parts = static_cast<size_t>(set.scattered ? group.size() : 1);
    if (term.values.size() != parts * n) return std::nullopt;
    const auto part = static_cast<size_t>(set.scattered ? group.IndexOf(piece.rank) : 0);
    const auto begin = term.values.begin() + static_cast<std::ptrdiff_t>(part * n);
    return Values(begin, begin + static_cast<std::ptrdiff_t>(n));
  }
  return std::nullopt;
}

// A reduction of the terms over the rank's group of some axes.
template <class F>
std::optional<Values> ReduceTerms(const Evidence& evidence, const TermSet& set,
                                  const std::string& axes, const RankPiece& piece, F&& combine) {
  Values result;
  for (const int member : evidence.mesh->GroupOf(axes, piece.rank).members) {
    std::optional<Values> term = TermFor(evidence, set, member, piece);
    if (!term) return std::nullopt;
    if (result.empty()) {
      result = std::move(*term);
      continue;
    }
    for (size_t i = 0; i < result.size(); ++i) result[i] = combine(result[i], (*term)[i]);
  }
  return result;
}

Number Plus(const Number& a, const Number& b) { return a + b; }
Number Larger(const Number& a, const Number& b) { return std::max(a, b); }

std::string Times(const Number& k) { return k == 1.0 ? "" : fmt::format("{} * ", ToString(k)); }

// actual = k * (something made of the terms), k near 1 or one over a group's size.
std::optional<Formula> FitWhole(const Evidence& evidence, const std::optional<Values>& made,
                                const std::string& what) {
  if (!made) return std::nullopt;
  const Values actual = StackActual(evidence);
  const std::optional<NamedNumber> k = Recognise(evidence, FactorBetween(actual, *made));
  if (!k || k->value == 0.0) return std::nullopt;
  Formula formula;
  formula.residual = ResidualOf(evidence, actual, Scaled(k->value, *made));
  if (!Explains(evidence, formula.residual)) return std::nullopt;
  formula.text = fmt::format("actual = {}{}", k->value == 1.0 ? "" : ToString(*k) + " * ", what);
  return formula;
}

ValuesOfPiece SumOver(const Evidence& evidence, const TermSet& set, const std::string& axes) {
  return [&evidence, &set, axes](const RankPiece& piece) {
    return ReduceTerms(evidence, set, axes, piece, Plus);
  };
}

// A group over which the terms do give the reference.
std::string RightSum(const Evidence& evidence, const TermSet& set) {
  const Values reference = StackReference(evidence);
  for (const std::string& axes : AxesWithRanks(*evidence.mesh)) {
    const auto sum = Stack(evidence, SumOver(evidence, set, axes));
    if (!sum) continue;
    const Number k = FactorBetween(reference, *sum);
    if (k == 0.0 || !Recognise(evidence, k)) continue;
    if (Explains(evidence, ResidualOf(evidence, reference, Scaled(k, *sum)))) {
      return fmt::format("; reference = a sum over {} of them", axes);
    }
  }
  return "";
}

// actual = a sum over some group of the terms. Over the group that the program named, that is a
// mistake only when another group's sum is the reference: else the terms themselves are wrong, and
// nothing about their reduction is.
std::optional<Formula> FitSumOverGroup(const Evidence& evidence, const TermSet& set) {
  for (const std::string& axes : AxesWithRanks(*evidence.mesh)) {
    const auto sum = Stack(evidence, SumOver(evidence, set, axes));
    auto formula = FitWhole(evidence, sum, fmt::format("sum over {} of the terms", axes));
    if (!formula) continue;
    const std::string right = RightSum(evidence, set);
    if (right.empty()) return Formula{};
    formula->text += right;
    formula->axes = axes;
    formula->cause = fmt::format("a reduction over the wrong group, {}", axes);
    return formula;
  }
  return std::nullopt;
}

std::optional<Formula> FitOtherReduction(const Evidence& evidence, const TermSet& set) {
  if (auto formula = FitSumOverGroup(evidence, set)) return formula;
  const auto own = Stack(
      evidence, [&](const RankPiece& piece) { return TermFor(evidence, set, piece.rank, piece); });
  if (auto formula = FitWhole(evidence, own, "this rank's own term")) {
    formula->axes = set.group_axes;
    formula->cause = fmt::format("the reduction over {} has no effect", set.group_axes);
    return formula;
  }
  const auto largest = Stack(evidence, [&](const RankPiece& piece) {
    return ReduceTerms(evidence, set, set.group_axes, piece, Larger);
  });
  if (auto formula = FitWhole(evidence, largest,
                              fmt::format("maximum over {} of the terms", set.group_axes))) {
    formula->axes = set.group_axes;
    formula->cause = "the wrong reduction: MAX";
    return formula;
  }
  return std::nullopt;
}

// actual = reference + k * the term of one rank: the same for all wrong ranks of its group.
std::optional<Formula> FitOneTerm(const Evidence& evidence, const TermSet& set) {
  const Values difference = AddScaled(StackActual(evidence), -1, StackReference(evidence));
  const int size = evidence.mesh->GroupOf(set.group_axes, evidence.pieces[0].rank).size();
  for (int position = 0; position < size; ++position) {
    int rank = -1;
    const auto term = Stack(evidence, [&](const RankPiece& piece) -> std::optional<Values> {
      rank =
          evidence.mesh->GroupOf(set.group_axes, piece.rank).members[static_cast<size_t>(position)];
      return TermFor(evidence, set, rank, piece);
    });
    if (!term) continue;
    const std::optional<NamedNumber> k =
        Recognise(evidence, FactorBetween(difference, *term), NumberUse::kAdded);
    if (!k || k->value == 0.0) continue;
    Formula formula;
    formula.residual = ResidualOf(evidence, difference, Scaled(k->value, *term));
    if (!Explains(evidence, formula.residual)) continue;
    formula.text = fmt::format("actual = reference {}the term of {} {} (rank {})", SignedFactor(*k),
                               set.group_axes, position, rank);
    formula.axes = set.group_axes;
    formula.cause = Negative(*k) ? "one rank's contribution is missing"
                                 : "one rank's contribution is counted twice";
    return formula;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Formula> FitGroupSum(const Evidence& evidence) {
  const Values reference = StackReference(evidence);
  std::vector<std::string> groups = AxesWithRanks(*evidence.mesh);
  if (IsTiedOverStages(evidence)) groups.insert(groups.begin(), "embedding");
  for (const std::string& axes : groups) {
    const auto sum =
        Stack(evidence, [&](const RankPiece& piece) { return SumOfActual(evidence, piece, axes); });
    if (!sum) continue;
    const int size = evidence.mesh->GroupOf(axes, evidence.WrongRanks().front()).size();
    for (const bool mean : {false, true}) {
      const Values combined = Scaled(Fraction(DTypeOf(*sum), 1, mean ? size : 1), *sum);
      Formula formula;
      formula.axes = axes;
      formula.cause = CauseOfMissingReduction(evidence, axes);
      formula.text = fmt::format("{} over {} of actual = reference", mean ? "mean" : "sum", axes);
      formula.residual = ResidualOf(evidence, combined, reference);
      if (Explains(evidence, formula.residual)) {
        if (axes == "embedding") formula.text += "; " + MissingTerms(*evidence.mesh);
        return formula;
      }
      // Beside a rank that is right, a wrong one that holds another tensor would fit as well.
      if (mean || !WholeGroupsAreWrong(evidence, axes)) continue;
      const Values rest = AddScaled(combined, -1, reference);
      for (const NamedTensor& other : evidence.others) {
        const Values added = StackWhole(evidence, other.values);
        const std::optional<NamedNumber> k = Recognise(evidence, FactorBetween(rest, added));
        if (!k || k->value == 0.0) continue;
        formula.residual = ResidualOf(evidence, rest, Scaled(k->value, added));
        if (!Explains(evidence, formula.residual)) continue;
        formula.text += fmt::format(" + {}{}", Times(k->value), other.name);
        return formula;
      }
    }
  }
  return std::nullopt;
}

std::optional<Formula> FitTerms(const Evidence& evidence) {
  for (const TermSet& set : evidence.reductions) {
    if (evidence.mesh->GroupOf(set.group_axes, evidence.pieces[0].rank).size() == 1) continue;
    if (auto formula = FitOtherReduction(evidence, set)) {
      if (formula->text.empty()) continue;
      return formula;
    }
    if (auto formula = FitOneTerm(evidence, set)) return formula;
  }
  return std::nullopt;
}

}  // namespace plumbline
