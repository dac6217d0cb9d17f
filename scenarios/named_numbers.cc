#include "scenarios/named_numbers.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace plumbline {
namespace {

class NumberList {
 public:
  // Multiples and shares of a count, in the order in which they are preferred.
  void AddCount(const std::string& name, double count, const std::string& axis = "") {
    if (!(count > 1)) return;
    Add(count, name, axis);
    Add(1 / count, "1/" + name, axis);
    Add(-count, "-" + name, axis);
    Add(-1 / count, "-1/" + name, axis);
    later_.push_back({count - 1, name + " - 1", axis});
    later_.push_back({1 - count, "1 - " + name, axis});
    later_.push_back({1 - 1 / count, "1 - 1/" + name, axis});
    later_.push_back({1 / count - 1, "1/" + name + " - 1", axis});
    later_.push_back({std::sqrt(count), "sqrt(" + name + ")", axis});
    later_.push_back({1 / std::sqrt(count), "1/sqrt(" + name + ")", axis});
  }
  void AddBoth(const std::string& name, double value) {
    if (value == 0) return;
    later_.push_back({value, name, ""});
    later_.push_back({-value, "-" + name, ""});
  }
  std::vector<NamedNumber> Take() {
    for (const double plain : {1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0}) {
      for (const double value : {plain, 1 / plain, -plain, -1 / plain}) Add(value, "", "");
    }
    for (NamedNumber& number : later_) Add(number.value, number.name, number.axis);
    return std::move(numbers_);
  }

 private:
  // A value is listed once, under all the counts that it may be.
  void Add(double value, const std::string& name, const std::string& axis) {
    for (NamedNumber& number : numbers_) {
      if (number.value != value) continue;
      // 1 is nothing that was counted.
      if (number.name.empty() && std::abs(value) != 1) number.name = name;
      return;
    }
    numbers_.push_back({value, name, axis});
  }

  std::vector<NamedNumber> numbers_;
  std::vector<NamedNumber> later_;
};

}  // namespace

std::vector<NamedNumber> NumbersOf(const RunConfig& config, const BatchSource& batches,
                                   const Mesh& mesh, const Site& site) {
  NumberList list;
  for (const char* axis : {"tp", "dp", "cp", "pp"}) {
    list.AddCount(axis, mesh.extent(axis), axis);
  }
  list.AddCount("num_microbatches", static_cast<double>(config.num_microbatches()));
  list.AddCount("microbatches of all ranks",
                static_cast<double>(config.train.global_microbatches()));
  list.AddCount("ranks", mesh.world_size());
  if (site.step >= 1) {
    double labels = 0;
    for (int64_t m = 0; m < config.train.global_microbatches(); ++m) {
      labels += LabelsOf(batches, site.step, m);
    }
    list.AddCount("labels of the step", labels);
    if (site.microbatch >= 0) {
      list.AddCount("labels of the microbatch", LabelsOf(batches, site.step, site.microbatch));
    }
  }
  list.AddBoth("lr", config.train.lr);
  list.AddBoth("weight_decay", config.train.weight_decay);
  list.AddBoth("lr * weight_decay", config.train.lr * config.train.weight_decay);
  list.AddBoth("1 - adam_beta1", 1 - config.train.adam_beta1);
  list.AddBoth("1 - adam_beta2", 1 - config.train.adam_beta2);
  list.AddBoth("label_smoothing", config.model.label_smoothing);
  return list.Take();
}

Values ToValues(const Tensor& tensor, double factor) {
  return DispatchScalar(tensor.dtype(), [&]<class T>() {
    Values values;
    for (const T value : tensor.ToVector<T>()) {
      values.push_back(static_cast<double>(value) * factor);
    }
    return values;
  });
}

double LabelsOf(const BatchSource& batches, int64_t step, int64_t microbatch) {
  double labels = 0;
  for (const double keep : ToValues(batches.Get(Context{}, step, microbatch).loss_mask)) {
    labels += keep;
  }
  return labels;
}

bool IsStartingParameter(const Site& site, int64_t step) {
  return site.quantity == Quantity::kParameter && site.step == std::max<int64_t>(step, 1) - 1;
}

}  // namespace plumbline
