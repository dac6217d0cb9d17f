// plumbline golden.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/files.h"
#include "oracle/golden.h"

namespace plumbline {
namespace {

using Json = nlohmann::ordered_json;

// Both sides compute in double; what differs is the order of sums.
constexpr double kBound = 1e-9;

Json NumberJson(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

std::string ReportText(const Console& console, const std::string& path,
                       const GoldenReport& report) {
  std::vector<std::vector<std::string>> rows = {
      {"  quantity", "tensors", "worst", "tensor", "index", "reference", "file"}};
  for (const GoldenQuantity& quantity : report.quantities) {
    const bool equal = quantity.index < 0;
    rows.push_back({"  " + quantity.name, fmt::format("{}", quantity.tensors),
                    fmt::format("{:.2g}", quantity.deviation), equal ? "" : quantity.tensor,
                    equal ? "" : fmt::format("{}", quantity.index),
                    equal ? "" : fmt::format("{:.17g}", quantity.actual),
                    equal ? "" : fmt::format("{:.17g}", quantity.expected)});
  }
  const bool pass = report.Within(kBound);
  return fmt::format(
      "{}\n{}{}  {}\n", path, FormatTable(rows, {1, 2, 4, 5, 6}),
      Paint(console, pass ? Colour::kGreen : Colour::kRed, pass ? "PASS" : "FAIL"),
      pass ? fmt::format("within {}", kBound) : fmt::format("not within {}", kBound));
}

Json ReportJson(const std::string& path, const GoldenReport& report) {
  Json quantities = Json::array();
  for (const GoldenQuantity& quantity : report.quantities) {
    quantities.push_back({{"quantity", quantity.name},
                          {"tensors", quantity.tensors},
                          {"worst", NumberJson(quantity.deviation)},
                          {"tensor", quantity.tensor},
                          {"index", quantity.index < 0 ? Json(nullptr) : Json(quantity.index)},
                          {"reference", NumberJson(quantity.actual)},
                          {"file_value", NumberJson(quantity.expected)}});
  }
  return {{"file", path},
          {"verdict", report.Within(kBound) ? "pass" : "fail"},
          {"quantities", std::move(quantities)}};
}

}  // namespace

int RunGolden(const CommandLine& line, const Console& console) {
  bool pass = true;
  Json files = Json::array();
  for (const std::string& path : line.files) {
    const GoldenReport report = CheckGolden(ResolvePath(path));
    pass = pass && report.Within(kBound);
    if (line.json) {
      files.push_back(ReportJson(path, report));
    } else {
      console.out << ReportText(console, path, report) << std::flush;
    }
  }
  if (line.json) {
    const Json json = {
        {"verdict", pass ? "pass" : "fail"}, {"bound", kBound}, {"files", std::move(files)}};
    console.out << json.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
  }
  return pass ? 0 : 1;
}

}  // namespace plumbline
