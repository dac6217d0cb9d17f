#include "scenarios/diagnose.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "scenarios/bounds.h"
#include "scenarios/fit_group.h"
#include "scenarios/fit_microbatch.h"
#include "scenarios/fit_norm.h"
#include "scenarios/fit_scale.h"
#include "scenarios/fit_tensor.h"
#include "scenarios/fit_vocabulary.h"
#include "scenarios/gather_evidence.h"
#include "scenarios/index_text.h"
#include "scenarios/microbatch_gradients.h"

namespace plumbline {
namespace {

Formula NonFinite(const Evidence& evidence) {
  int64_t nans = 0;
  int64_t infinities = 0;
  int64_t all = 0;
  for (const RankPiece& piece : evidence.pieces) {
    if (!piece.wrong) continue;
    for (const Number& value : piece.values) {
      nans += std::isnan(value.real()) ? 1 : 0;
      infinities += std::isinf(value.real()) ? 1 : 0;
      ++all;
    }
  }
  Formula formula;
  formula.text =
      fmt::format("actual is NaN in {} and infinite in {} of {} elements", nans, infinities, all);
  formula.cause = nans == all ? "memory that was never written, or read before a transfer completed"
                              : "an overflow, a division by zero, or poison that was read";
  return formula;
}

bool SameBits(const Number& a, const Number& b) {
  return a.exact() ? a == b
                   : std::bit_cast<uint64_t>(a.real()) == std::bit_cast<uint64_t>(b.real());
}

// What unequal replicas hold where they first differ.
void DescribeReplicas(const Evidence& evidence, const Divergence& divergence,
                      Diagnosis& diagnosis) {
  const RankPiece* wrong = evidence.PieceOfRank(divergence.ranks.front());
  if (wrong == nullptr) return;
  for (const RankPiece& other : evidence.pieces) {
    if (other.wrong || other.index != wrong->index) continue;
    size_t differing = 0;
    size_t first = 0;
    double largest = 0;
    for (size_t i = 0; i < wrong->values.size(); ++i) {
      if (SameBits(wrong->values[i], other.values[i])) continue;
      if (differing++ == 0) first = i;
      largest = std::max(largest, Distance(wrong->values[i], other.values[i]));
    }
    if (differing == 0) continue;
    const std::string where = IndexText(wrong->index[first], evidence.shape);
    const auto text = [&](const RankPiece& piece) {
      return fmt::format("{} at {} on rank {}", ToString(piece.values[first]), where, piece.rank);
    };
    diagnosis.actual = text(*wrong);
    diagnosis.reference = text(other);
    Formula formula;
    formula.text = fmt::format("{} of {} elements differ", differing, wrong->values.size());
    if (!wrong->values[first].exact()) {
      formula.text += fmt::format(", by at most {:.2e}", largest);
    }
    formula.cause = "replicas that are computed or updated in different ways";
    diagnosis.formula = std::move(formula);
    return;
  }
}

std::string GroupOfFinding(const Evidence& evidence, const Divergence& divergence,
                           const Diagnosis& diagnosis) {
  const int rank = divergence.ranks.front();
  if (diagnosis.formula && !diagnosis.formula->axes.empty()) {
    return ToString(evidence.mesh->GroupOf(diagnosis.formula->axes, rank));
  }
  if (evidence.reductions.empty()) return "";
  return ToString(evidence.mesh->GroupOf(evidence.reductions.front().group_axes, rank));
}

}  // namespace

std::optional<Formula> FitFormula(const Evidence& evidence) {
  // Only so much is said about a tensor whose scale is 0: nothing is relative to it.
  if (!(evidence.scale > 0) || evidence.WrongRanks().empty()) return std::nullopt;
  for (const auto& fit : {FitScale, FitGroupSum, FitStale, FitShard, FitTerms, FitAdded,
                          FitVocabulary, FitPermutation, FitShift, FitPart, FitOffset}) {
    if (auto formula = fit(evidence)) return formula;
  }
  return std::nullopt;
}

// The squares of a norm add up over parameters and ranks, the norm does not.
std::optional<Formula> FitSquares(Evidence evidence, std::vector<NamedTensor> squares) {
  for (RankPiece& piece : evidence.pieces) {
    for (Number& value : piece.values) value *= value;
  }
  for (Number& value : evidence.reference) value *= value;
  evidence.scale *= evidence.scale;
  evidence.others = std::move(squares);
  evidence.stale.clear();
  std::optional<Formula> formula = FitFormula(evidence);
  if (formula) formula->text = "of squares: " + formula->text;
  return formula;
}

Diagnosis Diagnose(const Scenario& scenario, const ScenarioInputs& inputs, const Mesh& mesh,
                   const Divergence& divergence) {
  Diagnosis diagnosis;
  const bool values = divergence.kind == FindingClass::kValueMismatch ||
                      divergence.kind == FindingClass::kNonFinite;
  const bool tensor = divergence.site.quantity != Quantity::kCounter && divergence.note.empty();
  const bool replicas = divergence.kind == FindingClass::kReplicaMismatch;
  if (!(values && tensor) && !replicas) return diagnosis;

  ReferenceTrace::Options options;
  options.main_params = HasMainParams(scenario.config);
  options.max_bytes_ahead = std::numeric_limits<int64_t>::max();
  options.keep = [step = divergence.site.step](const Site& site) {
    return site.step == step || site.step == std::max(step, 1) - 1;
  };
  SecondRun run = {ReferenceTrace(scenario.config.train, options), {}, {}};
  RunAgain(scenario, inputs, mesh, divergence, run);
  const Evidence evidence = GatherEvidence(scenario.config, inputs, mesh, divergence, run);
  if (replicas) {
    DescribeReplicas(evidence, divergence, diagnosis);
  } else if (divergence.kind == FindingClass::kNonFinite) {
    diagnosis.formula = NonFinite(evidence);
  } else {
    diagnosis.formula = FitFormula(evidence);
    if (!diagnosis.formula && divergence.site.tensor == "grad_norm") {
      std::vector<NamedTensor> squares = SquaresOfGradients(divergence.site, run.reference);
      diagnosis.formula = IsExact(scenario.config.dtype) ? FitNorm(evidence, squares)
                                                         : FitSquares(evidence, std::move(squares));
    }
    if (!diagnosis.formula && evidence.scale > 0) {
      const std::vector<Values> gradients =
          MicrobatchGradients(scenario.config, inputs, divergence.site, run.reference);
      diagnosis.formula = FitMicrobatches(evidence, gradients);
    }
    if (!diagnosis.formula) diagnosis.formula = FitRounding(evidence);
  }
  diagnosis.group = GroupOfFinding(evidence, divergence, diagnosis);
  return diagnosis;
}

}  // namespace plumbline
