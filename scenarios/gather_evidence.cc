#include "scenarios/gather_evidence.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "oracle/reference.h"
#include "scenarios/bounds.h"
#include "scenarios/named_numbers.h"

namespace plumbline {
namespace {

constexpr const char* kTable = "embedding.word_embeddings.weight";

// [B, S] to the sequence-first order of activations.
std::vector<int64_t> SequenceFirst(const Tensor& tokens) {
  return tokens.Transpose(0, 1).Contiguous(Context{}).ToVector<int64_t>();
}

// `values` along the last axis, repeated over the others.
Values Broadcast(const Values& values, size_t elements) {
  Values repeated(elements);
  for (size_t i = 0; i < elements; ++i) repeated[i] = values[i % values.size()];
  return repeated;
}

std::string LayerOf(const std::string& tensor) {
  const std::string prefix = "decoder.layers.";
  if (tensor.compare(0, prefix.size(), prefix) != 0) return "";
  return tensor.substr(0, tensor.find('.', prefix.size()) + 1);
}

// What may have been added to an activation: vectors of its layer, and what the reference computed
// just before it.
void AddActivationCandidates(const Site& site, const Shape& shape, const ReferenceTrace& reference,
                             Evidence& evidence) {
  constexpr size_t kNearest = 24;
  const size_t elements = evidence.reference.size();
  std::vector<NamedTensor> activations;
  for (const ReferenceEntry& entry : reference.entries()) {
    if (!entry.tensor.defined()) continue;
    const bool vector = IsStartingParameter(entry.site, site.step) && entry.shape.size() == 1 &&
                        !shape.empty() && entry.shape[0] == shape.back() &&
                        LayerOf(entry.site.tensor) == LayerOf(site.tensor);
    if (vector) {
      evidence.others.push_back({entry.site.tensor, Broadcast(ToValues(entry.tensor), elements)});
    }
    const bool activation = entry.site.step == site.step &&
                            entry.site.microbatch == site.microbatch &&
                            entry.site.phase == site.phase && entry.shape == shape;
    if (!activation) continue;
    if (entry.site.tensor == site.tensor) break;
    activations.push_back({entry.site.tensor, ToValues(entry.tensor)});
  }
  std::reverse(activations.begin(), activations.end());
  if (activations.size() > kNearest) activations.resize(kNearest);
  std::move(activations.begin(), activations.end(), std::back_inserter(evidence.others));
}

// What may have been added to a gradient, parameter or moment: the same parameter's other
// quantities of this step and the last, and the update.
void AddParameterCandidates(const Site& site, const ReferenceTrace& reference, Evidence& evidence) {
  Values before;
  for (const ReferenceEntry& entry : reference.entries()) {
    if (entry.site.tensor != site.tensor || !entry.tensor.defined()) continue;
    if (entry.site.step == site.step && entry.site.quantity == site.quantity) continue;
    const Values values = ToValues(entry.tensor);
    if (IsStartingParameter(entry.site, site.step)) before = values;
    evidence.others.push_back(
        {fmt::format("{} of step {}", Name(entry.site.quantity), entry.site.step), values});
  }
  if (site.quantity == Quantity::kParameter && !before.empty()) {
    evidence.others.push_back({"the step's update", AddScaled(evidence.reference, -1, before)});
  }
}

void AddLossCandidates(const Site& site, const ReferenceTrace& reference, Evidence& evidence) {
  for (const ReferenceEntry& entry : reference.entries()) {
    if (entry.site.step != site.step || entry.site.tensor != "loss") continue;
    if (!entry.tensor.defined()) continue;
    evidence.others.push_back(
        {fmt::format("loss of microbatch {}", entry.site.microbatch), ToValues(entry.tensor)});
  }
}

void AddStale(const Site& site, const ReferenceTrace& reference, Evidence& evidence) {
  for (const ReferenceEntry& entry : reference.entries()) {
    if (!entry.tensor.defined() || entry.site.tensor != site.tensor ||
        entry.site.quantity != site.quantity || entry.shape != evidence.shape) {
      continue;
    }
    if (entry.site.step == site.step && entry.site.microbatch == site.microbatch) continue;
    // Initial parameters are the value before step 1.
    const bool phase = entry.site.phase == site.phase || entry.site.phase == Phase::kInit;
    if (!phase) continue;
    evidence.stale.push_back(
        {entry.site.microbatch >= 0
             ? fmt::format("step {} microbatch {}", entry.site.step, entry.site.microbatch)
             : fmt::format("step {}", entry.site.step),
         ToValues(entry.tensor)});
  }
}

void AddVocabulary(const RunConfig& config, const ScenarioInputs& inputs, const Site& site,
                   ReferenceTrace& reference, Evidence& evidence) {
  const bool embedding = site.tensor == "embedding.word_embeddings";
  const bool loss = site.tensor == "loss_per_token";
  if (site.phase != Phase::kForward || !(embedding || loss)) return;
  VocabularyEvidence vocabulary;
  const Batch batch = inputs.batches.Get(Context{}, site.step, site.microbatch);
  vocabulary.tokens = SequenceFirst(batch.tokens);
  vocabulary.labels = SequenceFirst(batch.labels);
  vocabulary.vocab = config.model.padded_vocab_size;
  const int tp = config.parallel.tp;
  vocabulary.rows_per_rank = (vocabulary.vocab + tp - 1) / tp;
  vocabulary.label_smoothing = Literal(ReferenceDType(config.dtype), config.model.label_smoothing);
  for (const ReferenceEntry& entry : reference.entries()) {
    if (!entry.tensor.defined()) continue;
    if (embedding && entry.site.tensor == kTable && IsStartingParameter(entry.site, site.step)) {
      vocabulary.table = ToValues(entry.tensor);
    }
    if (loss && entry.site.tensor == "output_layer" && entry.site.step == site.step &&
        entry.site.microbatch == site.microbatch && entry.site.phase == Phase::kForward) {
      vocabulary.logits = ToValues(entry.tensor);
    }
  }
  evidence.vocabulary = std::move(vocabulary);
}

// As Megatron-Core lays parameters out: norms, positions, and the biases of row-parallel layers.
bool ReplicatedOverTp(const std::string& parameter) {
  return parameter.find("layernorm") != std::string::npos ||
         parameter.find("position_embeddings") != std::string::npos ||
         parameter.ends_with("linear_proj.bias") || parameter.ends_with("linear_fc2.bias");
}

// Contributions stand for the sum over their group, element by element.
void SumPartials(const Mesh& mesh, const std::vector<CapturedTensor>& tensors, size_t elements,
                 std::vector<RankPiece>& pieces) {
  std::vector<Values> sums(pieces.size());
  for (size_t i = 0; i < pieces.size(); ++i) {
    std::string axes;
    for (const AxisPlacement& placement : tensors[i].layout.tensor.placements) {
      if (placement.kind != PlacementKind::kPartial) continue;
      axes += (axes.empty() ? "" : "-") + placement.axis;
    }
    if (axes.empty()) continue;
    const Group& group = mesh.GroupOf(axes, pieces[i].rank);
    Values whole(elements, 0.0);
    for (const RankPiece& other : pieces) {
      if (group.IndexOf(other.rank) < 0) continue;
      for (size_t j = 0; j < other.index.size(); ++j) {
        if (other.index[j] >= 0) whole[static_cast<size_t>(other.index[j])] += other.values[j];
      }
    }
    sums[i] = Pick(whole, pieces[i].index);
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (!sums[i].empty()) pieces[i].values = std::move(sums[i]);
  }
}

std::vector<RankPiece> PiecesOf(const Mesh& mesh, const Divergence& divergence,
                                const Number& factor, const std::vector<CapturedTensor>& tensors,
                                size_t elements) {
  std::vector<RankPiece> pieces;
  for (const CapturedTensor& tensor : tensors) {
    RankPiece piece;
    piece.rank = tensor.rank;
    piece.index = tensor.layout.piece.global_index;
    piece.values = ToValues(tensor.local, factor);
    PL_CHECK(piece.index.size() == piece.values.size());
    for (size_t i = 0; i < piece.index.size(); ++i) {
      if (piece.index[i] < 0) piece.values[i] = 0;
    }
    piece.wrong = std::find(divergence.ranks.begin(), divergence.ranks.end(), tensor.rank) !=
                  divergence.ranks.end();
    pieces.push_back(std::move(piece));
  }
  SumPartials(mesh, tensors, elements, pieces);
  return pieces;
}

// What the ranks put into the reductions of this tensor. A reduce-scatter's input holds the pieces
// of all members.
std::vector<TermSet> ReductionsOf(const std::vector<CapturedCall>& calls, const Number& factor) {
  std::map<int64_t, TermSet> sets;
  for (const CapturedCall& call : calls) {
    const bool scattered = call.op == CollectiveOp::kReduceScatter;
    if (!call.input.defined() || !(scattered || call.op == CollectiveOp::kAllReduce)) continue;
    TermSet& set = sets[call.number];
    if (set.terms.empty()) {
      set.group_axes = call.group.name;
      set.scattered = scattered;
    }
    set.terms.push_back({call.rank, ToValues(call.input, factor)});
  }
  std::vector<TermSet> reductions;
  for (auto& [number, set] : sets) reductions.push_back(std::move(set));
  return reductions;
}

}  // namespace

void RunAgain(const Scenario& scenario, const ScenarioInputs& inputs, const Mesh& mesh,
              const Divergence& divergence, SecondRun& run) {
  TrainConfig train = scenario.config.train;
  train.steps = std::max<int64_t>(divergence.site.step, 1);
  RunReference(scenario.config.model, train, ReferenceDType(scenario.config.dtype),
               inputs.parameters, inputs.batches, run.reference);
  run.reference.Finish();
  Capture capture(divergence.site);
  RunObserver observer;
  observer.probe_of = [&](int rank) -> Probe& { return capture.ProbeOf(rank); };
  observer.watch = [&](Communicator& comm) { return capture.Watch(comm); };
  RunParallel(scenario, inputs, mesh, observer);
  run.tensors = capture.TakeTensors();
  run.calls = capture.TakeCalls();
}

Evidence GatherEvidence(const RunConfig& config, const ScenarioInputs& inputs, const Mesh& mesh,
                        const Divergence& divergence, SecondRun& run) {
  const Site& site = divergence.site;
  const ReferenceEntry* entry = run.reference.Find(site);
  PL_CHECK(entry != nullptr);
  PL_CHECK(entry->tensor.defined());
  const int64_t divisor = site.quantity == Quantity::kGradient
                              ? ActivationGradientDivisor(config, inputs.batches, site.step)
                              : 1;
  const Number factor = Fraction(ReferenceDType(config.dtype), 1, divisor);
  Evidence evidence;
  evidence.site = site;
  evidence.shape = entry->shape;
  evidence.mesh = &mesh;
  evidence.reference = ToValues(entry->tensor);
  evidence.scale = entry->max_abs;
  evidence.deviation = divergence.deviation;
  evidence.bound = divergence.bound;
  evidence.noise = IsHalf(config.dtype) ? divergence.bound : 0;
  evidence.pieces = PiecesOf(mesh, divergence, factor, run.tensors, evidence.reference.size());
  evidence.numbers = NumbersOf(config, inputs.batches, mesh, site);
  evidence.reductions = ReductionsOf(run.calls, factor);
  AddStale(site, run.reference, evidence);
  if (site.phase == Phase::kForward || site.phase == Phase::kBackward) {
    AddActivationCandidates(site, entry->shape, run.reference, evidence);
  } else if (site.quantity == Quantity::kValue) {
    AddLossCandidates(site, run.reference, evidence);
  } else {
    AddParameterCandidates(site, run.reference, evidence);
  }
  AddVocabulary(config, inputs, site, run.reference, evidence);
  return evidence;
}

std::vector<NamedTensor> SquaresOfGradients(const Site& site, const ReferenceTrace& reference) {
  Number replicated = 0;
  Number sharded = 0;
  for (const ReferenceEntry& entry : reference.entries()) {
    if (entry.site.quantity != Quantity::kMainGrad || entry.site.step != site.step) continue;
    if (!entry.tensor.defined()) continue;
    Number& sum = ReplicatedOverTp(entry.site.tensor) ? replicated : sharded;
    for (const Number& value : ToValues(entry.tensor)) sum += value * value;
  }
  return {{"squares of the parameters that tp ranks replicate", {replicated}},
          {"squares of the parameters that tp ranks share out", {sharded}}};
}

}  // namespace plumbline
