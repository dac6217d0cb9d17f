#include "scenarios/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "kernels/elementwise.h"
#include "parallel/pipeline/stage_layout.h"
#include "scenarios/accumulation.h"
#include "scenarios/bounds.h"
#include "scenarios/layout_plan.h"
#include "scenarios/piece_difference.h"
#include "scenarios/piece_set.h"
#include "scenarios/scattered_sum.h"

namespace plumbline {
namespace {

double Relative(double difference, double scale) {
  return difference == 0 ? 0 : difference / scale;  // 0 / 0 is 0, x / 0 infinite
}

struct Contribution {
  int rank = -1;
  const LayoutPlan* plan = nullptr;
  Tensor values;
};

// A tensor that some ranks have shown and others not yet.
struct OpenSite {
  const ReferenceEntry* entry = nullptr;
  int64_t divisor = 1;
  double bound = 0;
  std::vector<int> shown;  // ranks, in order of arrival
  std::vector<PieceReport> reports;
  std::vector<Contribution> contributions;  // of partial tensors
  std::optional<Overlay> overlay;
  Divergence values;      // of the ranks seen; no ranks: none diverged
  double worst = 0;       // absolute; in a field how many values are not equal
  double allowed = 0;     // what the worst may be, where elements have allowances of their own
  double worst_size = 0;  // of the divergence of `values`
  int64_t compared = 0;
  bool misfit = false;  // a piece that could not be compared, so that coverage says nothing

  bool HasShown(int rank) const {
    return std::find(shown.begin(), shown.end(), rank) != shown.end();
  }
};

bool IsFault(FindingClass kind) {
  return kind == FindingClass::kBufferLayout || kind == FindingClass::kUnusedParameter ||
         kind == FindingClass::kPrematureUse;
}

// What the program said about itself, and the ranks that did.
struct Fault {
  FindingClass kind;
  Site site;
  std::string what;
  std::vector<int> ranks;
};

}  // namespace

int64_t ActivationGradientDivisor(const RunConfig& config, const BatchSource& batches,
                                  int64_t step) {
  if (!config.train.calculate_per_token_loss) return config.parallel.dp;
  double labels = 0;
  for (int64_t microbatch = 0; microbatch < config.train.global_microbatches(); ++microbatch) {
    const Tensor mask = batches.Get(Context{}, step, microbatch).loss_mask;
    for (const double keep : mask.ToVector<double>()) labels += keep;
  }
  return std::max<int64_t>(1, static_cast<int64_t>(labels));
}

double ActivationGradientFactor(const RunConfig& config, const BatchSource& batches, int64_t step) {
  return 1.0 / static_cast<double>(ActivationGradientDivisor(config, batches, step));
}

class Comparer::Impl {
 public:
  Impl(const RunConfig& config, const Mesh& mesh, const BatchSource& batches,
       ReferenceTrace& reference, const NoiseFloor* noise_floor);

  Probe& ProbeOf(int rank);
  void OnAdvance(std::function<void(const Site&)> callback) { on_advance_ = std::move(callback); }
  Comparison Finish(bool completed);

 private:
  class RankProbe;

  void Observe(int rank, const Site& site, const ObservedLayout& layout, const Tensor& local);
  void ObserveCounter(int rank, const Site& site, int64_t value);
  void ObserveAccumulation(int rank, const Site& site, const Tensor& gradient,
                           const Tensor& main_grad);
  void ObserveFault(int rank, FindingClass kind, const Site& site, const std::string& what);
  OpenSite* Open(int rank, const Site& site);
  void CloseIfComplete(OpenSite& open);
  void Close(OpenSite& open);

  bool Fits(int rank, OpenSite& open, const ObservedLayout& layout, const LayoutPlan& plan,
            const Tensor& local);
  void ComparePiece(OpenSite& open, const std::vector<int>& ranks, const LayoutPlan& plan,
                    const Tensor& local);
  void AddToOverlay(OpenSite& open, int rank, const LayoutPlan& plan, const Tensor& local);
  void CompareSums(OpenSite& open);
  void CheckWhole(OpenSite& open);
  void CheckMissing(const Site& site, int64_t place, const std::vector<int>& shown);

  bool Holds(int rank, const Site& site);
  const std::vector<bool>& StagesOf(const Site& site);
  int64_t DivisorOf(const Site& site);
  Divergence& Add(FindingClass kind, const Site& site, int64_t place, std::vector<int> ranks,
                  std::string note);

  const RunConfig& config_;
  const Mesh& mesh_;
  const BatchSource& batches_;
  ReferenceTrace& reference_;
  const StageLayout stages_;
  std::unordered_map<std::string, std::vector<bool>> stages_of_tensor_;
  const NoiseFloor* const noise_floor_;
  const double bound_;  // without a noise floor
  std::function<void(const Site&)> on_advance_;
  std::pair<int32_t, int32_t> latest_ = {-1, -1};  // step and microbatch

  std::vector<std::unique_ptr<RankProbe>> probes_;
  std::vector<int64_t> last_place_;  // per rank
  LayoutPlans plans_;
  Coverage coverage_;
  std::unordered_map<int64_t, OpenSite> open_;                // by ordinal
  std::vector<bool> closed_;                                  // by ordinal
  std::unordered_map<Site, bool, SiteHash> shares_elements_;  // by site without its time
  std::map<int64_t, int64_t> divisor_;                        // of activation gradients, by step
  Tally tally_;
  AccumulationChecker accumulation_;
  std::vector<Fault> faults_;
  std::vector<Divergence> divergences_;
};

class Comparer::Impl::RankProbe : public Probe {
 public:
  RankProbe(Impl& impl, int rank) : impl_(impl), rank_(rank) {}
  void Observe(const Site& site, const ObservedLayout& layout, const Tensor& local) override {
    impl_.Observe(rank_, site, layout, local);
  }
  void ObserveCounter(const Site& site, int64_t value) override {
    impl_.ObserveCounter(rank_, site, value);
  }
  void ObserveAccumulation(const Site& site, const Tensor& gradient,
                           const Tensor& main_grad) override {
    impl_.ObserveAccumulation(rank_, site, gradient, main_grad);
  }
  void ObserveFault(FindingClass kind, const Site& site, const std::string& what) override {
    impl_.ObserveFault(rank_, kind, site, what);
  }

 private:
  Impl& impl_;
  int rank_;
};

Comparer::Impl::Impl(const RunConfig& config, const Mesh& mesh, const BatchSource& batches,
                     ReferenceTrace& reference, const NoiseFloor* noise_floor)
    : config_(config),
      mesh_(mesh),
      batches_(batches),
      reference_(reference),
      stages_(config),
      noise_floor_(noise_floor),
      bound_(noise_floor != nullptr ? 0 : DeviationBound(config.dtype)),
      last_place_(static_cast<size_t>(mesh.world_size()), -1),
      coverage_(plans_),
      tally_(bound_),
      accumulation_(config.grad_dtype()) {
  for (int rank = 0; rank < mesh.world_size(); ++rank) {
    probes_.push_back(std::make_unique<RankProbe>(*this, rank));
  }
}

Probe& Comparer::Impl::ProbeOf(int rank) { return *probes_[static_cast<size_t>(rank)]; }

Divergence& Comparer::Impl::Add(FindingClass kind, const Site& site, int64_t place,
                                std::vector<int> ranks, std::string note) {
  Divergence divergence;
  divergence.kind = kind;
  divergence.site = site;
  divergence.place = place;
  divergence.ranks = std::move(ranks);
  divergence.note = std::move(note);
  divergences_.push_back(std::move(divergence));
  return divergences_.back();
}

const std::vector<bool>& Comparer::Impl::StagesOf(const Site& site) {
  std::vector<bool>& stages = stages_of_tensor_[site.tensor];
  if (stages.empty()) {
    stages.resize(static_cast<size_t>(stages_.stages()), false);
    for (const int stage : stages_.StagesOf(site.tensor)) stages[static_cast<size_t>(stage)] = true;
  }
  return stages;
}

bool Comparer::Impl::Holds(int rank, const Site& site) {
  if (!StagesOf(site)[static_cast<size_t>(mesh_.CoordinateOf(rank, "pp"))]) return false;
  return site.microbatch < 0 ||
         site.microbatch % mesh_.extent("dp") == mesh_.CoordinateOf(rank, "dp");
}

int64_t Comparer::Impl::DivisorOf(const Site& site) {
  if (site.quantity != Quantity::kGradient) return 1;
  const auto [known, fresh] = divisor_.try_emplace(site.step, 0);
  if (fresh) known->second = ActivationGradientDivisor(config_, batches_, site.step);
  return known->second;
}

// The site's tally, or null when this rank should not have shown it, which is a finding of its own.
OpenSite* Comparer::Impl::Open(int rank, const Site& site) {
  const ReferenceEntry* entry = reference_.Find(site);
  int64_t& last = last_place_[static_cast<size_t>(rank)];
  if (entry == nullptr) {
    Add(FindingClass::kMissingTensor, site, last + 1, {rank}, "the reference has no such tensor");
    return nullptr;
  }
  last = entry->ordinal;
  if (on_advance_ && std::pair(site.step, site.microbatch) > latest_) {
    latest_ = {site.step, site.microbatch};
    on_advance_(site);
  }
  const auto ordinal = static_cast<size_t>(entry->ordinal);
  if (closed_.size() <= ordinal) closed_.resize(ordinal + 1, false);
  if (!Holds(rank, site)) {
    Add(FindingClass::kMissingTensor, site, entry->ordinal, {rank},
        fmt::format("shown by a rank of pipeline stage {} and data-parallel coordinate {}, which "
                    "does not hold it",
                    mesh_.CoordinateOf(rank, "pp"), mesh_.CoordinateOf(rank, "dp")));
    return nullptr;
  }
  OpenSite* open = nullptr;
  if (!closed_[ordinal]) {
    const auto [found, fresh] = open_.try_emplace(entry->ordinal);
    open = &found->second;
    if (fresh) {
      open->entry = entry;
      open->divisor = DivisorOf(site);
      open->bound = noise_floor_ != nullptr ? noise_floor_->BoundOf(site) : bound_;
    }
  }
  if (open == nullptr || open->HasShown(rank)) {
    Add(FindingClass::kMissingTensor, site, entry->ordinal, {rank}, "shown twice");
    return nullptr;
  }
  open->shown.push_back(rank);
  return open;
}

void Comparer::Impl::Observe(int rank, const Site& site, const ObservedLayout& layout,
                             const Tensor& local) {
  OpenSite* open = Open(rank, site);
  if (open == nullptr) return;
  const LayoutPlan& plan = plans_.Of(layout);
  if (Fits(rank, *open, layout, plan, local)) {
    const Tensor packed = local.Contiguous(Context{});
    if (plan.partial_over.empty()) {
      AddToOverlay(*open, rank, plan, packed);
      open->reports.push_back(ReportOf(rank, plan, packed));
      ComparePiece(*open, {rank}, plan, packed);
    } else {
      // Sums of these have no dtype of the program's; f32 adds no rounding to speak of.
      open->contributions.push_back(
          {rank, &plan, Cast(Context{}, packed, ComputeDType(packed.dtype()))});
    }
  }
  CloseIfComplete(*open);
}

void Comparer::Impl::ObserveCounter(int rank, const Site& site, int64_t value) {
  OpenSite* open = Open(rank, site);
  if (open == nullptr) return;
  ++open->compared;
  const auto reference = static_cast<double>(open->entry->counter);
  const double difference = std::abs(static_cast<double>(value) - reference);
  if (value != open->entry->counter) {
    Divergence& values = open->values;
    if (values.ranks.empty() || difference > open->worst) {
      values.rank = rank;
      values.actual = static_cast<double>(value);
      values.reference = reference;
    }
    values.ranks.push_back(rank);
    open->worst = std::max(open->worst, difference);
  }
  CloseIfComplete(*open);
}

void Comparer::Impl::ObserveAccumulation(int rank, const Site& site, const Tensor& gradient,
                                         const Tensor& main_grad) {
  if (noise_floor_ != nullptr) accumulation_.Observe(rank, site, gradient, main_grad);
}

void Comparer::Impl::ObserveFault(int rank, FindingClass kind, const Site& site,
                                  const std::string& what) {
  for (Fault& fault : faults_) {
    if (fault.kind != kind || !(fault.site == site) || fault.what != what) continue;
    const bool known = std::find(fault.ranks.begin(), fault.ranks.end(), rank) != fault.ranks.end();
    if (!known) fault.ranks.push_back(rank);
    return;
  }
  faults_.push_back({kind, site, what, {rank}});
}

// A piece that cannot be laid over the reference is a finding, and nothing more is said about it.
bool Comparer::Impl::Fits(int rank, OpenSite& open, const ObservedLayout& layout,
                          const LayoutPlan& plan, const Tensor& local) {
  const ReferenceEntry& entry = *open.entry;
  std::string note;
  if (!entry.tensor.defined()) {
    note = "a tensor is shown where the reference has a counter";
  } else if (layout.tensor.global_shape != entry.shape) {
    note = fmt::format("a piece of a tensor of shape {} where the reference has {}",
                       ToString(layout.tensor.global_shape), ToString(entry.shape));
  } else if (local.shape() != layout.piece.local_shape) {
    note = fmt::format("shape {} where the layout gives this rank {}", ToString(local.shape()),
                       ToString(layout.piece.local_shape));
  } else if (local.dtype() != StoredDType(config_, entry.site)) {
    note = fmt::format("dtype {} in a run in {}", Name(local.dtype()), Name(config_.dtype));
    if (noise_floor_ != nullptr) {
      note += fmt::format(", where {} is due", Name(StoredDType(config_, entry.site)));
    }
  } else if (plan.global_end > entry.elements) {
    note = fmt::format("the layout names element {} of {}", plan.global_end - 1, entry.elements);
  } else {
    return true;
  }
  open.misfit = true;
  Add(FindingClass::kValueMismatch, entry.site, entry.ordinal, {rank}, std::move(note));
  return false;
}

void Comparer::Impl::ComparePiece(OpenSite& open, const std::vector<int>& ranks,
                                  const LayoutPlan& plan, const Tensor& local) {
  const ReferenceEntry& entry = *open.entry;
  const PieceReference reference = {entry.tensor,    entry.max_abs,
                                    entry.exemption, 1.0 / static_cast<double>(open.divisor),
                                    open.divisor,    entry.allowance.get()};
  const PieceDifference difference = DifferenceOf(local, plan.runs, reference, open.bound);
  open.compared += plan.values;
  if (!difference.within) {
    Divergence& values = open.values;
    const bool nonfinite = difference.first_nonfinite >= 0;
    const bool was_nonfinite = values.kind == FindingClass::kNonFinite;
    const int64_t index = nonfinite ? difference.first_nonfinite : difference.index;
    const auto key = [](double size, int64_t at, int rank) {
      return std::tuple(-size, at, rank);  // the largest, then the first
    };
    const bool worse =
        values.ranks.empty() || (nonfinite && !was_nonfinite) ||
        (nonfinite == was_nonfinite && key(difference.max_abs_diff, index, ranks.front()) <
                                           key(open.worst_size, values.index, values.rank));
    if (worse) {
      if (nonfinite) values.kind = FindingClass::kNonFinite;
      values.rank = ranks.front();
      values.index = index;
      open.worst_size = difference.max_abs_diff;
      values.actual = difference.actual;
      values.reference = difference.reference;
    }
    values.ranks.insert(values.ranks.end(), ranks.begin(), ranks.end());
  }
  if (IsExact(config_.dtype)) {
    open.worst += static_cast<double>(difference.unequal) * static_cast<double>(ranks.size());
  } else if (entry.allowance != nullptr) {
    // The worst is what takes most of its allowance. The first one sets both.
    if (open.allowed == 0 ||
        difference.max_abs_diff * open.allowed > open.worst * difference.allowed) {
      open.worst = difference.max_abs_diff;
      open.allowed = difference.allowed;
    }
  } else {
    open.worst = std::max(open.worst, difference.max_abs_diff);
  }
}

// Different pieces may share elements. Whether those of a tensor do is known once all of them were
// seen, and does not change from step to step.
void Comparer::Impl::AddToOverlay(OpenSite& open, int rank, const LayoutPlan& plan,
                                  const Tensor& local) {
  const int64_t elements = open.entry->elements;
  if (plan.values == elements) return;
  if (!open.overlay) {
    Site key = open.entry->site;
    key.step = -1;
    key.microbatch = -1;
    const auto known = shares_elements_.find(key);
    if (known != shares_elements_.end() && !known->second) return;
    open.overlay.emplace(elements, SizeOf(local.dtype()));
  }
  for (const PieceReport& report : open.reports) {
    if (report.piece == plan.piece) return;  // a replica: the hashes tell
  }
  open.overlay->Add(rank, plan.runs, local);
}

// Contributions add where they stand for the same element: members of a group may hold different
// parts of the sum.
void Comparer::Impl::CompareSums(OpenSite& open) {
  std::map<std::vector<int>, std::vector<const Contribution*>> sums;  // by members of the group
  for (const Contribution& one : open.contributions) {
    const Group& group = mesh_.GroupOf(one.plan->partial_over, one.rank);
    std::vector<const Contribution*>& members = sums[group.members];
    members.resize(group.members.size(), nullptr);
    members[static_cast<size_t>(group.IndexOf(one.rank))] = &one;
  }
  for (const auto& [ranks, members] : sums) {
    // Without one of its terms a sum says nothing; the missing rank is a finding.
    if (std::find(members.begin(), members.end(), nullptr) != members.end()) continue;
    std::vector<SumTerm> terms;
    for (const Contribution* member : members) {
      terms.push_back({&member->values, &member->plan->runs});
    }
    const ScatteredSum sum = AddScattered(terms, open.entry->elements);
    const LayoutPlan& plan = plans_.OfIndices(sum.global_index);
    open.reports.push_back(ReportOf(ranks.front(), plan, sum.values));
    ComparePiece(open, ranks, plan, sum.values);
  }
}

// Replicas, shared elements, coverage.
void Comparer::Impl::CheckWhole(OpenSite& open) {
  const ReferenceEntry& entry = *open.entry;
  const ReplicaCheck replicas = CheckReplicas(open.reports);
  const bool shared_differ = open.overlay && open.overlay->unequal_rank() >= 0;
  if (replicas.any || (open.overlay && open.overlay->shared())) {
    tally_.AddReplicas(entry.site, entry.ordinal, open.compared,
                       !shared_differ && replicas.unequal.empty());
  }
  if (open.values.ranks.empty()) {
    if (!replicas.unequal.empty()) {
      Add(FindingClass::kReplicaMismatch, entry.site, entry.ordinal, replicas.unequal,
          "not the bits of the other replicas");
    } else if (shared_differ) {
      std::vector<int> pair = {open.overlay->unequal_to(), open.overlay->unequal_rank()};
      std::sort(pair.begin(), pair.end());
      Divergence& divergence = Add(FindingClass::kReplicaMismatch, entry.site, entry.ordinal,
                                   std::move(pair), "an element that both hold has different bits");
      divergence.index = open.overlay->index();
      divergence.shape = entry.shape;
    }
  }
  if (open.overlay) {
    Site key = entry.site;
    key.step = -1;
    key.microbatch = -1;
    shares_elements_[key] = open.overlay->shared();
  }
  if (open.misfit || open.reports.empty()) return;
  const int64_t missing = coverage_.FirstMissing(open.reports, entry.elements);
  if (missing >= 0) {
    Divergence& divergence = Add(FindingClass::kMissingTensor, entry.site, entry.ordinal,
                                 open.shown, "no rank holds an element of the reference");
    std::sort(divergence.ranks.begin(), divergence.ranks.end());
    divergence.index = missing;
    divergence.shape = entry.shape;
  }
}

void Comparer::Impl::CloseIfComplete(OpenSite& open) {
  const Site& site = open.entry->site;
  const std::vector<bool>& stages = StagesOf(site);
  const auto of_stages = static_cast<int>(std::count(stages.begin(), stages.end(), true));
  const int holders = mesh_.world_size() / mesh_.extent("pp") * of_stages /
                      (site.microbatch < 0 ? 1 : mesh_.extent("dp"));
  if (static_cast<int>(open.shown.size()) == holders) Close(open);
}

// `open` is gone afterwards.
void Comparer::Impl::Close(OpenSite& open) {
  const ReferenceEntry& entry = *open.entry;
  CompareSums(open);
  double bound = entry.tensor.defined() ? open.bound : 0;
  if (open.allowed > 0) bound = Relative(open.allowed, entry.max_abs);
  if (!open.values.ranks.empty()) {
    Divergence& values = open.values;
    values.site = entry.site;
    values.place = entry.ordinal;
    std::sort(values.ranks.begin(), values.ranks.end());
    values.shape = entry.shape;
    values.deviation = Relative(open.worst, entry.max_abs);
    values.bound = bound;
    divergences_.push_back(values);
  }
  if (entry.tensor.defined()) CheckWhole(open);
  tally_.Add(entry.site, entry.ordinal, open.compared,
             {Relative(open.worst, entry.max_abs), bound,
              noise_floor_ != nullptr ? noise_floor_->Of(entry.site) : 0});
  closed_[static_cast<size_t>(entry.ordinal)] = true;
  reference_.Drop(entry);
  open_.erase(entry.ordinal);
}

void Comparer::Impl::CheckMissing(const Site& site, int64_t place, const std::vector<int>& shown) {
  std::vector<int> missing;
  for (int rank = 0; rank < mesh_.world_size(); ++rank) {
    if (Holds(rank, site) && std::find(shown.begin(), shown.end(), rank) == shown.end()) {
      missing.push_back(rank);
    }
  }
  if (missing.empty()) return;
  Add(FindingClass::kMissingTensor, site, place, std::move(missing), "never shown");
}

Comparison Comparer::Impl::Finish(bool completed) {
  reference_.Find(Site{});  // waits for the end: no program tags this site
  std::vector<int64_t> open;
  for (const auto& [ordinal, site] : open_) open.push_back(ordinal);
  std::sort(open.begin(), open.end());
  const int64_t count = static_cast<int64_t>(reference_.entries().size());
  closed_.resize(static_cast<size_t>(count), false);
  for (const int64_t ordinal : open) {
    OpenSite& site = open_.at(ordinal);
    if (completed) CheckMissing(site.entry->site, ordinal, site.shown);
    // Ranks that were stopped on the way leave tensors of which a part was never shown.
    site.misfit = site.misfit || !completed;
    Close(site);
  }
  if (completed) {
    for (const ReferenceEntry& entry : reference_.entries()) {
      if (!closed_[static_cast<size_t>(entry.ordinal)]) CheckMissing(entry.site, entry.ordinal, {});
    }
  }
  for (Fault& fault : faults_) {
    std::sort(fault.ranks.begin(), fault.ranks.end());
    Add(fault.kind, fault.site, reference_.PlaceOf(fault.site), fault.ranks, fault.what);
  }
  for (const AccumulationFault& fault : accumulation_.faults()) {
    std::vector<int> ranks = fault.ranks;
    std::sort(ranks.begin(), ranks.end());
    Add(FindingClass::kAccumulation, fault.site, reference_.PlaceOf(fault.site), std::move(ranks),
        fault.what);
  }
  Comparison comparison;
  std::stable_sort(divergences_.begin(), divergences_.end(),
                   [](const Divergence& a, const Divergence& b) {
                     // What the program says of itself explains the values that follow.
                     return std::tuple(a.place, !IsFault(a.kind), a.kind, a.ranks) <
                            std::tuple(b.place, !IsFault(b.kind), b.kind, b.ranks);
                   });
  comparison.divergences = std::move(divergences_);
  comparison.compared = tally_.Quantities();
  return comparison;
}

Comparer::Comparer(const RunConfig& config, const Mesh& mesh, const BatchSource& batches,
                   ReferenceTrace& reference, const NoiseFloor* noise_floor)
    : impl_(std::make_unique<Impl>(config, mesh, batches, reference, noise_floor)) {}
Comparer::~Comparer() = default;

Probe& Comparer::ProbeOf(int global_rank) { return impl_->ProbeOf(global_rank); }
void Comparer::OnAdvance(std::function<void(const Site&)> callback) {
  impl_->OnAdvance(std::move(callback));
}
Comparison Comparer::Finish(bool completed) { return impl_->Finish(completed); }

}  // namespace plumbline
