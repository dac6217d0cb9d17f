// plumbline gradcheck: the reference's own backward against derivatives of its forward.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <nlohmann/json.hpp>

#include "base/batch.h"
#include "base/error.h"
#include "base/field.h"
#include "base/init.h"
#include "base/rng.h"
#include "cli/commands.h"
#include "cli/run_options.h"
#include "oracle/gradcheck.h"

namespace plumbline {
namespace {

using Json = nlohmann::ordered_json;

// <gradient, v> and the derivative along v are two sums of one size in double.
constexpr double kBound = 1e-12;

struct Row {
  std::string tensor;
  std::string jvp;
  std::string dot;
  double error = 0;
  bool pass = false;
};

std::string TextOf(double x) { return fmt::format("{:.17g}", x); }
std::string TextOf(M61 x) { return fmt::format("{}", x.v); }

template <class T>
std::vector<Row> Check(const RunOptions& options, const TextBatches& batches) {
  const RunConfig& config = options.config;
  const SeededParameters parameters(config.model, config.train.seed);
  GradientCheckOptions<T> check;
  check.seed = config.train.seed;
  std::vector<Row> rows;
  for (const GradientCheck<T>& one :
       CheckGradients<T>(config.model, config.train, parameters, batches, check)) {
    const double bound = std::floating_point<T> ? kBound : 0;
    rows.push_back({one.tensor, TextOf(one.jvp), TextOf(one.dot), one.error, one.error <= bound});
  }
  return rows;
}

// A run that divided by 0 is repeated with another key.
std::vector<Row> CheckExact(const RunOptions& options, const TextBatches& batches) {
  const RandomStream keys = DataStream(options.exact.seed, "keys of the field");
  for (uint64_t number = 0; number < 3; ++number) {
    CurrentFieldRun() = {keys.Bits(number), 0};
    std::vector<Row> rows = Check<M61>(options, batches);
    if (CurrentFieldRun().divisions_by_zero == 0) return rows;
  }
  throw InvalidArgument(
      "three runs in a row divided by 0: the model divides by 0 whatever the key");
}

Json RowsJson(const std::vector<Row>& rows) {
  Json tensors = Json::array();
  for (const Row& row : rows) {
    tensors.push_back({{"tensor", row.tensor},
                       {"derivative", row.jvp},
                       {"gradient", row.dot},
                       {"error", std::isfinite(row.error) ? Json(row.error) : Json("inf")},
                       {"pass", row.pass}});
  }
  return tensors;
}

}  // namespace

int RunGradcheck(const CommandLine& line, const Console& console) {
  const RunOptions options = MakeRunOptions(line);
  const DType dtype = options.config.dtype;
  if (dtype != DType::kF64 && dtype != DType::kM61) {
    throw InvalidArgument("gradcheck runs in --dtype f64 or exact (--prime m61), not in {}",
                          Name(dtype));
  }
  const TextBatches batches(options.config.model, options.config.train, DataOf(options));
  const std::vector<Row> rows =
      dtype == DType::kM61 ? CheckExact(options, batches) : Check<double>(options, batches);
  const auto failed = std::count_if(rows.begin(), rows.end(), [](const Row& r) { return !r.pass; });
  if (options.json) {
    const Json json = {{"verdict", failed == 0 ? "pass" : "fail"},
                       {"seed", options.config.train.seed},
                       {"dtype", Name(dtype)},
                       {"bound", dtype == DType::kM61 ? 0 : kBound},
                       {"tensors", RowsJson(rows)},
                       {"repeat", options.repeat}};
    console.out << json.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
    return failed == 0 ? 0 : 1;
  }
  std::vector<std::vector<std::string>> table = {
      {"tensor", "error", "derivative along v", "<gradient, v>", ""}};
  for (const Row& row : rows) {
    table.push_back({row.tensor, fmt::format("{:.2g}", row.error), row.jvp, row.dot,
                     row.pass ? "" : Paint(console, Colour::kRed, "differs")});
  }
  console.out << FormatTable(table, {1, 2, 3})
              << fmt::format("\n{}  {} of {} parameter tensors {}, {}\n",
                             Paint(console, failed == 0 ? Colour::kGreen : Colour::kRed,
                                   failed == 0 ? "PASS" : "FAIL"),
                             failed == 0 ? rows.size() : static_cast<size_t>(failed), rows.size(),
                             failed == 0 ? "agree" : "differ",
                             dtype == DType::kM61 ? "without a tolerance"
                                                  : fmt::format("within {}", kBound));
  return failed == 0 ? 0 : 1;
}

}  // namespace plumbline
