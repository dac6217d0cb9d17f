#include "scenarios/fit_microbatch.h"

#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace plumbline {
namespace {

// 0.5 and 1.3333 rather than sixteen digits; a weight is only as good as the residual.
std::string Short(const Number& weight) {
  if (weight.exact()) return ToString(weight);
  return fmt::format("{:.4g}", std::round(weight.real() * 1e6) / 1e6);
}

Eigen::VectorXd ToEigen(const Values& values) {
  Eigen::VectorXd vector(static_cast<Eigen::Index>(values.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    vector[static_cast<Eigen::Index>(i)] = values[i].real();
  }
  return vector;
}

Values LeastSquares(const std::vector<Values>& terms, const Values& sum) {
  Eigen::MatrixXd matrix(static_cast<Eigen::Index>(sum.size()),
                         static_cast<Eigen::Index>(terms.size()));
  for (size_t m = 0; m < terms.size(); ++m) {
    matrix.col(static_cast<Eigen::Index>(m)) = ToEigen(terms[m]);
  }
  const Eigen::VectorXd weights = matrix.colPivHouseholderQr().solve(ToEigen(sum));
  return {weights.begin(), weights.end()};
}

// In a field: elimination over the first equations that determine the weights. Whether the others
// hold, the residual says. A weight that nothing determines is 0.
Values Eliminate(const std::vector<Values>& terms, const Values& sum) {
  const size_t unknowns = terms.size();
  std::vector<Values> rows;  // in echelon form: coefficients, then the right-hand side
  std::vector<size_t> pivots;
  for (size_t i = 0; i < sum.size() && rows.size() < unknowns; ++i) {
    Values row;
    for (const Values& term : terms) row.push_back(term[i]);
    row.push_back(sum[i]);
    for (size_t r = 0; r < rows.size(); ++r) row = AddScaled(row, -row[pivots[r]], rows[r]);
    const auto pivot =
        std::find_if(row.begin(), row.end() - 1, [](const Number& x) { return !(x == 0.0); });
    if (pivot == row.end() - 1) continue;
    const auto column = static_cast<size_t>(pivot - row.begin());
    row = Scaled(1.0 / row[column], row);
    for (Values& other : rows) other = AddScaled(other, -other[column], row);
    rows.push_back(std::move(row));
    pivots.push_back(column);
  }
  Values weights(unknowns, Scaled(0.0, sum)[0]);
  for (size_t r = 0; r < rows.size(); ++r) weights[pivots[r]] = rows[r].back();
  return weights;
}

}  // namespace

std::optional<Formula> FitMicrobatches(const Evidence& evidence,
                                       const std::vector<Values>& gradients) {
  const Values actual = StackActual(evidence);
  // Fewer equations than a few times the unknowns are solved by anything.
  constexpr size_t kEquationsPerUnknown = 4;
  const size_t unknowns = gradients.size();
  if (unknowns < 2 || actual.size() < kEquationsPerUnknown * unknowns) return std::nullopt;
  std::vector<Values> terms;
  for (const Values& gradient : gradients) terms.push_back(StackWhole(evidence, gradient));
  const Values weights = actual[0].exact() ? Eliminate(terms, actual) : LeastSquares(terms, actual);
  Values fitted(actual.size(), 0.0);
  for (size_t m = 0; m < unknowns; ++m) fitted = AddScaled(fitted, weights[m], terms[m]);
  Formula formula;
  formula.residual = ResidualOf(evidence, actual, fitted);
  if (!Explains(evidence, formula.residual)) return std::nullopt;
  std::string list;
  bool twice = false;
  for (size_t m = 0; m < unknowns; ++m) {
    list += fmt::format("{}{}", m == 0 ? "" : ", ", Short(weights[m]));
    twice = twice || Size(weights[m]) > 1.5;
  }
  formula.text = fmt::format("actual = sum of microbatch gradients with weights [{}]", list);
  formula.cause = twice ? "a microbatch that is accumulated or reduced more than once"
                        : "a microbatch that is left out, or means of unequal parts averaged";
  return formula;
}

}  // namespace plumbline
