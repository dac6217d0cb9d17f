#include "scenarios/tally.h"

#include <string_view>

namespace plumbline {
namespace {

enum Row : size_t {
  kInitialParameter,
  kForwardValue,
  kActivationGradient,
  kMainGrad,
  kLossAndNorm,
  kParameter,
  kMainParam,
  kExpAvg,
  kExpAvgSq,
  kCounter,
  kReplicas
};
constexpr std::array<std::string_view, 11> kNames = {
    "initial parameter", "forward value", "activation gradient",
    "main_grad",         "loss and norm", "parameter",
    "main_param",        "exp_avg",       "exp_avg_sq",
    "counter",           "replicas"};

// Where nothing may be off, deviations compare by themselves.
double ShareOf(double deviation, double bound) { return bound > 0 ? deviation / bound : deviation; }

}  // namespace

size_t Tally::RowOf(const Site& site) {
  switch (site.quantity) {
    case Quantity::kGradient:
      return kActivationGradient;
    case Quantity::kMainGrad:
      return kMainGrad;
    case Quantity::kParameter:
      return site.phase == Phase::kInit ? kInitialParameter : kParameter;
    case Quantity::kMainParam:
      return kMainParam;
    case Quantity::kExpAvg:
      return kExpAvg;
    case Quantity::kExpAvgSq:
      return kExpAvgSq;
    case Quantity::kCounter:
      return kCounter;
    case Quantity::kValue:
      break;
  }
  return site.phase == Phase::kForward ? kForwardValue : kLossAndNorm;
}

Tally::Tally(double bound) {
  for (size_t row = 0; row < kRows; ++row) {
    rows_[row].quantity = kNames[row];
    rows_[row].bound = row == kCounter || row == kReplicas ? 0 : bound;
  }
}

void Tally::Add(const Site& site, int64_t place, int64_t values, double deviation) {
  const size_t row = RowOf(site);
  AddTo(row, site, place, values, {deviation, rows_[row].bound, 0});
}

void Tally::Add(const Site& site, int64_t place, int64_t values, const Measured& measured) {
  AddTo(RowOf(site), site, place, values, measured);
}

void Tally::AddReplicas(const Site& site, int64_t place, int64_t values, bool equal) {
  AddTo(kReplicas, site, place, values, {equal ? 0.0 : 1.0, 0, 0});
}

void Tally::AddTo(size_t row, const Site& site, int64_t place, int64_t values,
                  const Measured& measured) {
  ComparedQuantity& quantity = rows_[row];
  const bool first = quantity.tensors == 0;
  ++quantity.tensors;
  quantity.values += values;
  const double share = ShareOf(measured.deviation, measured.bound);
  const double most = ShareOf(quantity.worst, quantity.bound);
  if (first || share > most || (share == most && place < worst_place_[row])) {
    quantity.worst = measured.deviation;
    quantity.bound = measured.bound;
    quantity.floor = measured.floor;
    quantity.worst_site = site;
    worst_place_[row] = place;
  }
}

std::vector<ComparedQuantity> Tally::Quantities() const {
  std::vector<ComparedQuantity> quantities;
  for (const ComparedQuantity& quantity : rows_) {
    if (quantity.tensors > 0) quantities.push_back(quantity);
  }
  return quantities;
}

}  // namespace plumbline
