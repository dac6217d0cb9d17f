#include "scenarios/named_numbers.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace plumbline {
namespace {

class NumberList {
 public:
  explicit NumberList(DType dtype) : dtype_(dtype) {}

  // Multiples and shares of a count, in the order in which they are preferred.
  void AddCount(const std::string& name, int64_t count, const std::string& axis = "") {
    if (count <= 1) return;
    const Number n = Fraction(dtype_, count, 1);
    const Number share = Fraction(dtype_, 1, count);
    Add(n, name, axis);
    Add(share, "1/" + name, axis);
    Add(-n, "-" + name, axis);
    Add(-share, "-1/" + name, axis);
    later_.push_back({n - 1.0, name + " - 1", axis, true});
    later_.push_back({1.0 - n, "1 - " + name, axis, true});
    later_.push_back({1.0 - share, "1 - 1/" + name, axis, true});
    later_.push_back({share - 1.0, "1/" + name + " - 1", axis, true});
    later_.push_back({SquareRoot(n), "sqrt(" + name + ")", axis, true});
    later_.push_back({1.0 / SquareRoot(n), "1/sqrt(" + name + ")", axis, true});
  }
  void AddBoth(const std::string& name, const Number& value) {
    if (value == 0.0) return;
    later_.push_back({value, name, ""});
    later_.push_back({-value, "-" + name, ""});
  }
  Number Value(double literal) const { return Literal(dtype_, literal); }
  std::vector<NamedNumber> Take() {
    for (const int64_t plain : {1, 2, 4, 8, 16, 32, 64}) {
      const Number n = Fraction(dtype_, plain, 1);
      const Number share = Fraction(dtype_, 1, plain);
      for (const Number& value : {n, share, -n, -share}) Add(value, "", "");
    }
    // 1 is nothing that was counted.
    for (NamedNumber& number : later_) {
      if (!(number.value == 1.0) && !(number.value == -1.0)) numbers_.push_back(std::move(number));
    }
    return std::move(numbers_);
  }

 private:
  void Add(const Number& value, const std::string& name, const std::string& axis) {
    numbers_.push_back({value, name, axis});
  }

  DType dtype_;
  std::vector<NamedNumber> numbers_;
  std::vector<NamedNumber> later_;
};

void AddCountsOfData(const RunConfig& config, const BatchSource& batches, const Site& site,
                     NumberList& list) {
  const int64_t microbatches = config.train.global_microbatches();
  list.AddCount("num_microbatches", config.num_microbatches());
  list.AddCount("microbatches of all ranks", microbatches);
  if (site.step < 1) return;
  int64_t labels = 0;
  for (int64_t m = 0; m < microbatches; ++m) labels += LabelsOf(batches, site.step, m);
  list.AddCount("labels of the step", labels);
  if (site.microbatch >= 0) {
    list.AddCount("labels of the microbatch", LabelsOf(batches, site.step, site.microbatch));
  }
}

}  // namespace

std::vector<NamedNumber> NumbersOf(const RunConfig& config, const BatchSource& batches,
                                   const Mesh& mesh, const Site& site) {
  NumberList list(IsExact(config.dtype) ? config.dtype : DType::kF64);
  if (site.tensor == kWordTable && config.model.tied_embeddings && mesh.extent("pp") > 1) {
    list.AddCount("stages that hold the table", 2, "embedding");
  }
  for (const char* axis : {"tp", "dp", "cp", "pp"}) {
    list.AddCount(axis, mesh.extent(axis), axis);
  }
  // A module's forward knows of no other microbatch and of no labels.
  const bool of_module = site.phase == Phase::kForward && !site.tensor.starts_with("loss");
  if (!of_module) AddCountsOfData(config, batches, site, list);
  const std::vector<std::string> axes = AxesWithRanks(mesh);
  if (axes.size() > 1) list.AddCount("ranks", mesh.world_size());  // else those of the one axis
  const Number lr = list.Value(config.train.lr);
  const Number weight_decay = list.Value(config.train.weight_decay);
  list.AddBoth("lr", lr);
  list.AddBoth("weight_decay", weight_decay);
  list.AddBoth("lr * weight_decay", lr * weight_decay);
  list.AddBoth("1 - adam_beta1", 1.0 - list.Value(config.train.adam_beta1));
  list.AddBoth("1 - adam_beta2", 1.0 - list.Value(config.train.adam_beta2));
  list.AddBoth("label_smoothing", list.Value(config.model.label_smoothing));
  return list.Take();
}

int64_t LabelsOf(const BatchSource& batches, int64_t step, int64_t microbatch) {
  double labels = 0;
  for (const Number& keep : ToValues(batches.Get(Context{}, step, microbatch).loss_mask)) {
    labels += keep.real();
  }
  return static_cast<int64_t>(labels);
}

bool IsStartingParameter(const Site& site, int64_t step) {
  return site.quantity == Quantity::kParameter && site.step == std::max<int64_t>(step, 1) - 1;
}

}  // namespace plumbline
