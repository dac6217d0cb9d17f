#include "scenarios/verify.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/field.h"
#include "base/rng.h"
#include "parallel/pipeline/stage_layout.h"
#include "scenarios/bounds.h"
#include "scenarios/compare.h"
#include "scenarios/diagnose.h"
#include "scenarios/exact_bound.h"
#include "scenarios/measure_noise.h"
#include "scenarios/reference_thread.h"
#include "scenarios/reference_trace.h"
#include "scenarios/report.h"

namespace plumbline {
namespace {

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
  const StageLayout stages(scenario.config);
  bool diagnosed = false;
  for (size_t i = 0; i < listed; ++i) {
    if (ranked[i].collective != nullptr) {
      Finding finding = *ranked[i].collective;
      finding.places = PlacesOf(stages, mesh, finding.site.tensor, finding.ranks);
      finding.repeat = scenario.repeat;
      verdict.findings.push_back(std::move(finding));
      continue;
    }
    std::optional<Diagnosis> diagnosis;
    if (!diagnosed) {
      Progress(scenario, 0.95, "diagnosing");
      diagnosis = Diagnose(scenario, inputs, mesh, *ranked[i].divergence);
      diagnosed = true;
    }
    verdict.findings.push_back(MakeFinding(*ranked[i].divergence, mesh, stages,
                                           diagnosis ? &*diagnosis : nullptr, scenario.repeat));
  }
}

// One run of both programs. When it is void its findings are only listed on demand.
struct Run {
  Verdict verdict;
  bool is_void = false;
  int64_t unequal = 0;
};

Run RunOnce(const Scenario& scenario, const ScenarioInputs& inputs, const FieldKey& field,
            bool accept_void, const NoiseFloor* noise_floor) {
  const Mesh mesh(scenario.config.parallel);
  field.Set();
  ReferenceTrace::Options trace_options;
  trace_options.main_params = HasMainParams(scenario.config);
  trace_options.noise_floor = noise_floor;
  ReferenceTrace trace(scenario.config.train, trace_options);
  Comparer comparer(scenario.config, mesh, inputs.batches, trace, noise_floor);
  comparer.OnAdvance([&](const Site& site) {
    Progress(
        scenario, FractionAt(scenario.config.train, site),
        "step " + std::to_string(site.step) + " of " + std::to_string(scenario.config.train.steps));
  });
  const ReferenceThread reference(scenario.config, inputs, field, trace);
  RunObserver observer;
  observer.probe_of = [&](int rank) -> Probe& { return comparer.ProbeOf(rank); };
  const WorldResult world = RunParallel(scenario, inputs, mesh, observer);
  Comparison comparison = comparer.Finish(world.completed);

  Run run;
  run.is_void = IsExact(field.dtype) &&
                (reference.divisions_by_zero() > 0 || CurrentFieldRun().divisions_by_zero > 0);
  for (const Divergence& divergence : comparison.divergences) {
    if (divergence.actual.exact()) run.unequal += static_cast<int64_t>(divergence.deviation);
  }
  Verdict& verdict = run.verdict;
  verdict.completed = world.completed;
  verdict.compared = std::move(comparison.compared);
  AddCollectives(world, verdict.compared);
  const std::vector<Ranked> ranked = InSiteOrder(trace, world, comparison);
  verdict.pass = ranked.empty() && world.completed;
  if (!run.is_void || accept_void) FillFindings(scenario, inputs, mesh, ranked, verdict);
  return run;
}

// Values are added up; of each quantity the worst is kept.
void AddKey(const Run& run, Verdict& all) {
  for (const ComparedQuantity& quantity : run.verdict.compared) {
    if (quantity.quantity != "replicas" && quantity.quantity != "collectives") {
      all.exact->values += quantity.values;
    }
    const auto same = std::find_if(
        all.compared.begin(), all.compared.end(),
        [&](const ComparedQuantity& other) { return other.quantity == quantity.quantity; });
    if (same == all.compared.end()) {
      all.compared.push_back(quantity);
      continue;
    }
    same->values += quantity.values;
    if (quantity.worst > same->worst) {
      same->worst = quantity.worst;
      same->worst_site = quantity.worst_site;
    }
  }
  all.exact->unequal += run.unequal;
  all.findings = run.verdict.findings;
  all.more_findings = run.verdict.more_findings;
  all.pass = run.verdict.pass;
  all.completed = run.verdict.completed;
}

// So many void runs in a row are no accident, but for a tiny prime.
int64_t MostVoidRuns(uint64_t prime) { return prime < (uint64_t{1} << 20) ? 1000 : 3; }

uint64_t PrimeOf(const Scenario& scenario) {
  switch (scenario.config.dtype) {
    case DType::kM61:
      return M61::prime();
    case DType::kP50:
      return P50::prime();
    default:
      return scenario.exact.small_prime;
  }
}

Verdict VerifyExact(const Scenario& scenario, const ScenarioInputs& inputs) {
  const ExactOptions& options = scenario.exact;
  if (options.keys < 1) throw InvalidArgument("{} keys; must be at least 1", options.keys);
  const uint64_t prime = PrimeOf(scenario);
  const RandomStream keys = DataStream(options.seed, "keys of the field");
  Verdict verdict;
  verdict.exact.emplace().prime = prime;
  ExactVerdict& exact = *verdict.exact;
  Scenario one = scenario;
  int64_t void_in_a_row = 0;
  for (uint64_t number = 0; exact.keys < options.keys; ++number) {
    if (scenario.progress) {
      one.progress = [&](double fraction, const std::string& what) {
        scenario.progress((exact.keys + fraction) / options.keys, what);
      };
    }
    const bool last_chance = void_in_a_row + 1 >= MostVoidRuns(prime);
    const Run run =
        RunOnce(one, inputs, {scenario.config.dtype, keys.Bits(number), options.small_prime},
                last_chance, nullptr);
    if (run.is_void && !(last_chance && !run.verdict.pass)) {
      ++exact.void_runs;
      ++void_in_a_row;
      if (!last_chance) continue;
      throw InvalidArgument("prime {}: {} runs in a row divided by 0; a larger one is needed",
                            prime, void_in_a_row);
    }
    void_in_a_row = 0;
    ++exact.keys;
    AddKey(run, verdict);
    if (!verdict.pass) break;
  }
  exact.false_equality = FalseEqualityBound(scenario.config, prime, exact.keys);
  return verdict;
}

// Both programs start from the rounded weights. The noise floor comes first, at a share of the
// progress.
Verdict VerifyHalf(const Scenario& scenario, const ScenarioInputs& inputs) {
  constexpr double kMeasuring = 0.5;
  const RoundedParameters rounded(inputs.parameters, scenario.config.dtype);
  const ScenarioInputs rounded_inputs = {rounded, inputs.batches};
  NoiseFloorOptions options = scenario.noise_floor;
  if (options.orders.empty()) options.orders = NoiseOrders(scenario.config.parallel.tp);
  const NoiseFloor floor = MeasureNoiseFloor(
      scenario.config, rounded_inputs, options,
      [&](double share) { Progress(scenario, kMeasuring * share, "measuring the noise floor"); });
  Scenario after = scenario;
  if (scenario.progress) {
    after.progress = [&](double fraction, const std::string& what) {
      scenario.progress(kMeasuring + (1 - kMeasuring) * fraction, what);
    };
  }
  Verdict verdict = RunOnce(after, rounded_inputs, FieldKey{}, false, &floor).verdict;
  verdict.low_precision = {scenario.config.dtype, floor.unit(), options.multiple, options.minimum,
                           static_cast<int>(options.orders.size())};
  return verdict;
}

Verdict VerifyByDType(const Scenario& scenario, const ScenarioInputs& inputs) {
  if (IsExact(scenario.config.dtype)) return VerifyExact(scenario, inputs);
  if (IsHalf(scenario.config.dtype)) return VerifyHalf(scenario, inputs);
  return RunOnce(scenario, inputs, FieldKey{}, false, nullptr).verdict;
}

}  // namespace

Verdict Verify(const Scenario& scenario, const ScenarioInputs& inputs) {
  Validate(scenario.config);
  if (scenario.max_findings < 1) {
    throw InvalidArgument("max_findings is {}; must be at least 1", scenario.max_findings);
  }
  Verdict verdict = VerifyByDType(scenario, inputs);
  Progress(scenario, 1.0, "done");
  return verdict;
}

}  // namespace plumbline
