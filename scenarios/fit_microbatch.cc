#include "scenarios/fit_microbatch.h"

#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <string>

namespace plumbline {
namespace {

// 0.5 and 1.3333 rather than sixteen digits; a weight is only as good as the residual.
std::string Short(double weight) { return fmt::format("{:.4g}", std::round(weight * 1e6) / 1e6); }

}  // namespace

std::optional<Formula> FitMicrobatches(const Evidence& evidence,
                                       const std::vector<Values>& gradients) {
  const Values actual = StackActual(evidence);
  const auto rows = static_cast<Eigen::Index>(actual.size());
  const auto columns = static_cast<Eigen::Index>(gradients.size());
  // Fewer equations than a few times the unknowns are solved by anything.
  constexpr Eigen::Index kEquationsPerUnknown = 4;
  if (columns < 2 || rows < kEquationsPerUnknown * columns) return std::nullopt;
  Eigen::MatrixXd terms(rows, columns);
  for (Eigen::Index m = 0; m < columns; ++m) {
    const Values stacked = StackWhole(evidence, gradients[static_cast<size_t>(m)]);
    terms.col(m) = Eigen::Map<const Eigen::VectorXd>(stacked.data(), rows);
  }
  const Eigen::VectorXd weights =
      terms.colPivHouseholderQr().solve(Eigen::Map<const Eigen::VectorXd>(actual.data(), rows));
  const Eigen::VectorXd fitted = terms * weights;
  Formula formula;
  formula.residual =
      ResidualOf(evidence, actual, Values(fitted.data(), fitted.data() + fitted.size()));
  if (!Explains(evidence, formula.residual)) return std::nullopt;
  std::string list;
  bool twice = false;
  for (Eigen::Index m = 0; m < columns; ++m) {
    list += fmt::format("{}{}", m == 0 ? "" : ", ", Short(weights[m]));
    twice = twice || weights[m] > 1.5;
  }
  formula.text = fmt::format("actual = sum of microbatch gradients with weights [{}]", list);
  formula.cause = twice ? "a microbatch that is accumulated or reduced more than once"
                        : "a microbatch that is left out, or means of unequal parts averaged";
  return formula;
}

}  // namespace plumbline
