#include "scenarios/fit_scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>

namespace plumbline {
namespace {

bool IsStepValue(const Site& site) {
  return site.phase == Phase::kFinalize || site.phase == Phase::kNorm;
}

std::string CauseOfScale(const Evidence& evidence, const NamedNumber& k) {
  if (k.axis.empty()) {
    return IsStepValue(evidence.site) ? "the division of the loss by microbatches or tokens"
                                      : "a scale applied twice or not at all";
  }
  if (k.axis == "embedding") {
    return "the gradients of a tied word table, summed over first and last stage more than once";
  }
  if (k.axis == "dp") {
    return std::abs(Size(k.value)) > 1
               ? "a data-parallel reduction that sums where it should average"
               : "a data-parallel reduction that averages where it should sum";
  }
  return std::abs(Size(k.value)) > 1
             ? fmt::format("a term that each {} rank adds, or an average over {} left out", k.axis,
                           k.axis)
             : fmt::format("a reduction over {} that averages where it should sum", k.axis);
}

// Where actual and reference differ by more than the bound.
std::vector<size_t> Differing(const Evidence& evidence, const Values& actual,
                              const Values& reference) {
  std::vector<size_t> where;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double difference = Distance(actual[i], reference[i]);
    if (!(difference <= evidence.bound * evidence.scale)) where.push_back(i);
  }
  return where;
}

Values Select(const Values& values, const std::vector<size_t>& where) {
  Values selected;
  selected.reserve(where.size());
  for (const size_t i : where) selected.push_back(values[i]);
  return selected;
}

std::string SomeOf(size_t part, size_t all) {
  return fmt::format("in {} of {} elements", part, all);
}

// The bit whose inversion turns `actual` into the reference, or -1.
int FlippedBit(const Evidence& evidence, const Number& actual, const Number& reference) {
  for (int bit = 0; bit < 64; ++bit) {
    const uint64_t mask = uint64_t{1} << bit;
    if (actual.exact()) {
      if ((actual.residue() ^ mask) == reference.residue()) return bit;
      continue;
    }
    const auto flipped = std::bit_cast<double>(std::bit_cast<uint64_t>(actual.real()) ^ mask);
    if (std::abs(flipped - reference.real()) <= evidence.bound * evidence.scale) return bit;
  }
  return -1;
}

// In a field any element: they are all equal or there is no offset.
Number MeanOf(const Values& difference) {
  if (difference.front().exact()) return difference.front();
  double sum = 0;
  for (const Number& d : difference) sum += d.real();
  return sum / static_cast<double>(difference.size());
}

std::string Signed(const Number& offset) {
  if (!offset.exact()) return fmt::format("{:+.6g}", offset.real());
  const std::string text = ToString(offset);
  return text.starts_with('-') ? text : "+" + text;
}

}  // namespace

std::optional<Formula> FitScale(const Evidence& evidence) {
  const Values actual = StackActual(evidence);
  const Values reference = StackReference(evidence);
  Formula formula;
  formula.residual = ResidualOf(evidence, actual, Values(actual.size(), 0.0));
  if (Explains(evidence, formula.residual)) {
    formula.text = "actual = 0";
    formula.cause = "a result that is zeroed or never written";
    return formula;
  }
  const std::optional<NamedNumber> k = Recognise(evidence, FactorBetween(actual, reference));
  if (!k) return std::nullopt;
  formula.residual = ResidualOf(evidence, actual, Scaled(k->value, reference));
  if (!Explains(evidence, formula.residual)) return std::nullopt;
  formula.text = fmt::format("actual = {} * reference", ToString(*k));
  formula.axes = k->axis;
  formula.cause = CauseOfScale(evidence, *k);
  return formula;
}

std::optional<Formula> FitPart(const Evidence& evidence) {
  const Values actual = StackActual(evidence);
  const Values reference = StackReference(evidence);
  const std::vector<size_t> where = Differing(evidence, actual, reference);
  if (where.empty() || where.size() == actual.size()) return std::nullopt;
  const Values part = Select(actual, where);
  const Values reference_part = Select(reference, where);
  Formula formula;
  formula.residual = ResidualOf(evidence, part, Values(part.size(), 0.0));
  if (Explains(evidence, formula.residual)) {
    formula.text = fmt::format("actual = 0 {}", SomeOf(where.size(), actual.size()));
    formula.cause = "a mask, or a part that is never written";
    return formula;
  }
  if (where.size() == 1) {
    const int bit = FlippedBit(evidence, part[0], reference_part[0]);
    formula.residual = 0;
    formula.text =
        bit >= 0 ? fmt::format("one element differs, in bit {}", bit) : "one element differs";
    formula.cause = "a payload or a buffer that was corrupted";
    return formula;
  }
  const std::optional<NamedNumber> k = Recognise(evidence, FactorBetween(part, reference_part));
  if (!k) return std::nullopt;
  formula.residual = ResidualOf(evidence, part, Scaled(k->value, reference_part));
  if (!Explains(evidence, formula.residual)) return std::nullopt;
  formula.text =
      fmt::format("actual = {} * reference {}", ToString(*k), SomeOf(where.size(), actual.size()));
  formula.axes = k->axis;
  formula.cause = "rows that are reduced or scaled unlike the rest";
  return formula;
}

std::optional<Formula> FitOffset(const Evidence& evidence) {
  const Values difference = AddScaled(StackActual(evidence), -1, StackReference(evidence));
  if (evidence.reference.size() < 2) return std::nullopt;
  const Number offset = MeanOf(difference);
  Formula formula;
  formula.residual = ResidualOf(evidence, difference, Values(difference.size(), offset));
  if (!Explains(evidence, formula.residual)) return std::nullopt;
  std::string text = Signed(offset);
  for (const NamedNumber& number : evidence.numbers) {
    if (offset.exact() || number.axis.empty() || !(number.value.real() > 1)) continue;
    const double log = std::log(number.value.real());
    if (std::abs(std::abs(offset.real()) - log) <= 1e-9 * log) {
      text = fmt::format("{} log({})", offset.real() > 0 ? '+' : '-', number.name);
      formula.axes = number.axis;
      break;
    }
  }
  formula.text = fmt::format("actual = reference {}", text);
  formula.cause = "a term counted once per rank inside a logarithm, or a constant added";
  return formula;
}

std::optional<Formula> FitRounding(const Evidence& evidence) {
  // A bound of bf16 or fp16 is of the size of its rounding.
  const double bounds = evidence.noise > 0 ? 4 : 1e3;
  if (!(evidence.deviation <= bounds * evidence.bound)) return std::nullopt;
  Formula formula;
  formula.text = fmt::format("actual = reference to within {:.1e}", evidence.deviation);
  formula.residual = evidence.deviation;
  formula.cause =
      "rounding: a low-precision accumulation, or a small coefficient such as an epsilon";
  return formula;
}

}  // namespace plumbline
