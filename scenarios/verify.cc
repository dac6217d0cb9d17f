#include "scenarios/verify.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "oracle/reference.h"
#include "scenarios/compare.h"
#include "scenarios/diagnose.h"
#include "scenarios/reference_trace.h"
#include "scenarios/report.h"

namespace plumbline {
namespace {

// The reference in a thread of its own. It ends when the trace is complete, when it fails (the
// trace keeps the error), or when this is destroyed.
class ReferenceThread {
 public:
  ReferenceThread(const RunConfig& config, const ScenarioInputs& inputs, ReferenceTrace& trace)
      : trace_(trace), thread_([&config, &inputs, &trace] {
          try {
            RunReference(config.model, config.train, DType::kF64, inputs.parameters, inputs.batches,
                         trace);
            trace.Finish();
          } catch (...) {
            trace.Fail(std::current_exception());
          }
        }) {}
  ReferenceThread(const ReferenceThread&) = delete;
  ReferenceThread& operator=(const ReferenceThread&) = delete;
  ~ReferenceThread() {
    trace_.Cancel();
    thread_.join();
  }

 private:
  ReferenceTrace& trace_;
  std::thread thread_;
};

void Progress(const Scenario& scenario, double fraction, const std::string& what) {
  if (scenario.progress) scenario.progress(fraction, what);
}

// The share of a run before the first tensor of a step and microbatch; diagnosis gets the rest.
double FractionAt(const TrainConfig& train, const Site& site) {
  constexpr double kRun = 0.95;
  if (site.step < 1) return 0;
  const auto microbatches = static_cast<double>(train.global_microbatches());
  const double of_step = site.microbatch >= 0 ? site.microbatch / microbatches : 1.0;
  const double steps = static_cast<double>(site.step - 1) + of_step;
  return kRun * std::min(1.0, steps / static_cast<double>(train.steps));
}

// How many collectives were matched.
void AddCollectives(const WorldResult& world, std::vector<ComparedQuantity>& compared) {
  if (world.records.empty()) return;
  ComparedQuantity quantity;
  quantity.quantity = "collectives";
  quantity.tensors = static_cast<int64_t>(world.records.size());
  for (const CollectiveRecord& record : world.records) {
    quantity.values += ElementsOf(record.input_shape);
  }
  quantity.worst = world.findings.empty() ? 0 : 1;
  if (!world.findings.empty()) quantity.worst_site = world.findings.front().site;
  compared.push_back(std::move(quantity));
}

// A collective's finding takes its tensor's place, before the tensor itself.
struct Ranked {
  int64_t place;
  const Finding* collective;     // or
  const Divergence* divergence;  // one of both
};

std::vector<Ranked> InSiteOrder(const ReferenceTrace& trace, const WorldResult& world,
                                const Comparison& comparison) {
  std::vector<Ranked> all;
  for (const Finding& finding : world.findings) {
    all.push_back({trace.PlaceOf(finding.site), &finding, nullptr});
  }
  for (const Divergence& divergence : comparison.divergences) {
    all.push_back({divergence.place, nullptr, &divergence});
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Ranked& a, const Ranked& b) { return a.place < b.place; });
  return all;
}

void FillFindings(const Scenario& scenario, const ScenarioInputs& inputs, const Mesh& mesh,
                  const std::vector<Ranked>& ranked, Verdict& verdict) {
  const auto listed = std::min(ranked.size(), static_cast<size_t>(scenario.max_findings));
  verdict.more_findings = static_cast<int64_t>(ranked.size() - listed);
  bool diagnosed = false;
  for (size_t i = 0; i < listed; ++i) {
    if (ranked[i].collective != nullptr) {
      verdict.findings.push_back(*ranked[i].collective);
      verdict.findings.back().repeat = scenario.repeat;
      continue;
    }
    std::optional<Diagnosis> diagnosis;
    if (!diagnosed) {
      Progress(scenario, 0.95, "diagnosing");
      diagnosis = Diagnose(scenario, inputs, mesh, *ranked[i].divergence);
      diagnosed = true;
    }
    verdict.findings.push_back(MakeFinding(*ranked[i].divergence, mesh,
                                           diagnosis ? &*diagnosis : nullptr, scenario.repeat));
  }
}

}  // namespace

Verdict Verify(const Scenario& scenario, const ScenarioInputs& inputs) {
  Validate(scenario.config);
  if (scenario.max_findings < 1) {
    throw InvalidArgument("max_findings is {}; must be at least 1", scenario.max_findings);
  }
  const Mesh mesh(scenario.config.parallel);
  ReferenceTrace trace(scenario.config.train);
  Comparer comparer(scenario.config, mesh, inputs.batches, trace);
  comparer.OnAdvance([&](const Site& site) {
    Progress(
        scenario, FractionAt(scenario.config.train, site),
        "step " + std::to_string(site.step) + " of " + std::to_string(scenario.config.train.steps));
  });
  const ReferenceThread reference(scenario.config, inputs, trace);
  RunObserver observer;
  observer.probe_of = [&](int rank) -> Probe& { return comparer.ProbeOf(rank); };
  const WorldResult world = RunParallel(scenario, inputs, mesh, observer);
  Comparison comparison = comparer.Finish(world.completed);

  Verdict verdict;
  verdict.completed = world.completed;
  verdict.compared = std::move(comparison.compared);
  AddCollectives(world, verdict.compared);
  const std::vector<Ranked> ranked = InSiteOrder(trace, world, comparison);
  verdict.pass = ranked.empty() && world.completed;
  FillFindings(scenario, inputs, mesh, ranked, verdict);
  Progress(scenario, 1.0, "done");
  return verdict;
}

}  // namespace plumbline
