#include "cli/verify_json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <variant>

namespace plumbline {
namespace {

using Json = nlohmann::ordered_json;

Json NumberJson(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

// -1 means that it does not apply.
Json IndexJson(int32_t value) { return value < 0 ? Json(nullptr) : Json(value); }

Json SiteJson(const Site& site) {
  return {{"step", IndexJson(site.step)},
          {"phase", Name(site.phase)},
          {"layer", IndexJson(site.layer)},
          {"tensor", site.tensor},
          {"microbatch", IndexJson(site.microbatch)},
          {"quantity", Name(site.quantity)}};
}

Json PlacesJson(const std::vector<PipelinePlace>& places) {
  Json array = Json::array();
  for (const PipelinePlace& place : places) {
    array.push_back({{"stage", place.stage}, {"chunk", IndexJson(place.chunk)}});
  }
  return array;
}

Json FindingJson(const Finding& finding) {
  return {{"class", Name(finding.kind)},
          {"site", SiteJson(finding.site)},
          {"ranks", finding.ranks},
          {"places", PlacesJson(finding.places)},
          {"group", finding.group},
          {"actual", finding.actual},
          {"reference", finding.reference},
          {"formula", finding.formula},
          {"residual", NumberJson(finding.residual)},
          {"repeat", finding.repeat},
          {"message", finding.message}};
}

Json ComparedJson(const ComparedQuantity& compared, bool has_floor) {
  const bool all_equal = compared.worst == 0;
  Json json = {{"quantity", compared.quantity},
               {"tensors", compared.tensors},
               {"values", compared.values},
               {"worst", NumberJson(compared.worst)},
               {"bound", NumberJson(compared.bound)}};
  if (has_floor) json["floor"] = NumberJson(compared.floor);
  json["where"] = all_equal ? Json(nullptr) : SiteJson(compared.worst_site);
  return json;
}

// Keys as Megatron's namespace spells them.
std::string Underscored(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

Json ConfigJson(const RunOptions& options) {
  Json config = Json::object();
  for (const Setting& setting : options.settings) {
    config[Underscored(setting.name)] =
        std::visit([](const auto& value) { return Json(value); }, setting.value);
  }
  return config;
}

Json DefaultedJson(const RunOptions& options) {
  Json names = Json::array();
  for (const Setting& setting : options.settings) {
    if (!setting.given) names.push_back(Underscored(setting.name));
  }
  return names;
}

}  // namespace

std::string VerdictJson(const RunOptions& options, int64_t data_bytes, const Verdict& verdict,
                        std::optional<double> wall_seconds) {
  Json compared = Json::array();
  for (const ComparedQuantity& quantity : verdict.compared) {
    compared.push_back(ComparedJson(quantity, verdict.low_precision.has_value()));
  }
  Json findings = Json::array();
  for (const Finding& finding : verdict.findings) findings.push_back(FindingJson(finding));
  Json json = {
      {"verdict", verdict.pass ? "pass" : "fail"},
      {"seed", options.config.train.seed},
      {"config", ConfigJson(options)},
      {"world_size", options.config.parallel.world_size()},
      {"data",
       {{"file", options.data.empty() ? Json(nullptr) : Json(options.data)},
        {"bytes", data_bytes}}},
      {"schedule",
       {{"policy", options.random_schedule ? "random" : "round_robin"},
        {"seed", options.schedule_seed},
        {"on_mismatch", options.continue_on_mismatch ? "continue" : "stop"}}},
      {"planted", options.plant.empty() ? Json(nullptr) : Json(options.plant)},
      {"defaulted", DefaultedJson(options)},
      {"ignored", options.ignored},
      {"notes", options.notes},
      {"compared", std::move(compared)},
      {"completed", verdict.completed},
      {"findings", std::move(findings)},
      {"more_findings", verdict.more_findings},
      {"repeat", options.repeat},
  };
  if (verdict.exact) {
    json["exact"] = {
        {"prime", verdict.exact->prime},         {"keys", verdict.exact->keys},
        {"void_runs", verdict.exact->void_runs}, {"values", verdict.exact->values},
        {"unequal", verdict.exact->unequal},     {"false_equality", verdict.exact->false_equality}};
  }
  if (verdict.low_precision) {
    const LowPrecisionVerdict& of = *verdict.low_precision;
    json["low_precision"] = {{"dtype", Name(of.dtype)},
                             {"unit", of.unit},
                             {"multiple", of.multiple},
                             {"minimum", of.minimum},
                             {"runs", of.runs}};
  }
  if (wall_seconds.has_value()) json["timings"] = {{"wall_seconds", *wall_seconds}};
  // A path need not be UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace plumbline
